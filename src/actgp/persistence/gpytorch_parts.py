"""What gpytorch's classes, which have no `config()`, are made of: kernels, likelihoods and constraints.

The arguments of the functions here are attributes of what they build, and so are the entries of its description.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import gpytorch.kernels as gpk
import gpytorch.likelihoods as gpl
import torch
from gpytorch.constraints import GreaterThan, Interval, LessThan, Positive
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import Likelihood
from gpytorch.priors import Prior
from gpytorch.utils.transforms import inv_sigmoid, inv_softplus
from torch import Tensor, nn

from actgp.persistence.errors import refuse, refuse_to_save
from actgp.persistence.registry import Sizes, register

Transform = Callable[[Tensor], Tensor]
M = TypeVar("M", bound=nn.Module)

CONSTRAINTS: dict[str, type[Interval]] = {c.__name__: c for c in (Interval, GreaterThan, LessThan, Positive)}
TRANSFORMS: dict[str, tuple[Transform | None, Transform | None]] = {
    "softplus": (nn.functional.softplus, inv_softplus),
    "sigmoid": (torch.sigmoid, inv_sigmoid),
    "exp": (torch.exp, torch.log),
    "none": (None, None),
}
LENGTHSCALES: Sizes = {"raw_lengthscale": (1, "ard_num_dims")}


def _of_inputs(cls: type[Kernel]) -> Callable[..., Kernel]:
    """A kernel with at most one number for each input."""

    def build(ard_num_dims: int | None, active_dims: Sequence[int] | None) -> Kernel:
        return cls(**_given(ard_num_dims, active_dims))

    return build


def _matern(nu: float, ard_num_dims: int | None, active_dims: Sequence[int] | None) -> Kernel:
    return gpk.MaternKernel(nu, **_given(ard_num_dims, active_dims))


def _polynomial(power: int, ard_num_dims: int | None, active_dims: Sequence[int] | None) -> Kernel:
    return gpk.PolynomialKernel(power, **_given(ard_num_dims, active_dims))


def _given(ard_num_dims: int | None, active_dims: Sequence[int] | None) -> dict[str, Any]:
    ard = {} if ard_num_dims is None else {"ard_num_dims": ard_num_dims}  # None is not what some have by default
    return {**ard, "active_dims": active_dims}


def _constant(active_dims: Sequence[int] | None) -> Kernel:
    return gpk.ConstantKernel(active_dims=active_dims)


def _scale(base_kernel: Kernel, active_dims: Sequence[int] | None) -> Kernel:
    return gpk.ScaleKernel(base_kernel, active_dims=active_dims)


def _combined(cls: type[Kernel]) -> Callable[..., Kernel]:
    def build(kernels: Sequence[Kernel]) -> Kernel:
        return cls(*kernels)

    return build


def _negative_binomial(num_failures_param: bool) -> Likelihood:
    return gpl.NegativeBinomialLikelihood(num_failures_param=num_failures_param)


def _softmax(num_classes: int, num_features: int | None) -> Likelihood:
    mixing = num_features is not None
    return gpl.SoftmaxLikelihood(num_features=num_features, num_classes=num_classes, mixing_weights=mixing)


def _config_of_softmax(likelihood: gpl.SoftmaxLikelihood) -> dict[str, Any]:
    mixing = likelihood.mixing_weights is not None
    return {"num_classes": likelihood.num_classes, "num_features": likelihood.num_features if mixing else None}


def _attributes(build: Callable[..., Any]) -> Callable[[Any], dict[str, Any]]:
    """The config of a thing whose attributes have the names of arguments."""
    names = list(inspect.signature(build).parameters)
    return lambda part: {name: _plain(getattr(part, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist()
    return list(value) if isinstance(value, nn.ModuleList) else value


def _register(cls: type[nn.Module], build: Callable[..., Any], sizes: Sizes | None = None) -> None:
    register(cls, _attributes(build), build, sizes)


for _kernel in (gpk.RBFKernel, gpk.RQKernel, gpk.PeriodicKernel):
    _register(_kernel, _of_inputs(_kernel), LENGTHSCALES)
_register(gpk.MaternKernel, _matern, LENGTHSCALES)
_register(gpk.LinearKernel, _of_inputs(gpk.LinearKernel), {"raw_variance": (1, "ard_num_dims")})
_register(gpk.CosineKernel, _of_inputs(gpk.CosineKernel))
_register(gpk.PolynomialKernel, _polynomial)
_register(gpk.ConstantKernel, _constant)
_register(gpk.ScaleKernel, _scale)
for _kernel in (gpk.AdditiveKernel, gpk.ProductKernel):
    _register(_kernel, _combined(_kernel))
for _likelihood in (
    *(gpl.GaussianLikelihood, gpl.StudentTLikelihood, gpl.LaplaceLikelihood),
    *(gpl.BernoulliLikelihood, gpl.BetaLikelihood, gpl.PoissonLikelihood),
):
    register(_likelihood, lambda _: {}, _likelihood)
_register(gpl.NegativeBinomialLikelihood, _negative_binomial)
register(gpl.SoftmaxLikelihood, _config_of_softmax, _softmax, {"mixing_weights": ("num_classes", "num_features")})


def check_part(part: nn.Module, inner: Iterable[str], place: str) -> None:
    """Refuses batches, of which a file knows nothing, and priors; those of parts inside are checked there."""
    if isinstance(part, Kernel) and part.batch_shape:
        raise ValueError(
            f"to be saved, a kernel must have no batch_shape, got {list(part.batch_shape)} at {place}; "
            "build one model for each element"
        )
    numbers = part.named_parameters() if isinstance(part, Likelihood) else ()
    shapes = {name: list(p.shape) for name, p in numbers if name.rpartition(".")[2].startswith("raw_")}
    if any(shape != [1] for shape in shapes.values()):
        raise ValueError(
            f"to be saved, a likelihood must have one number for each parameter, got shapes {shapes} at {place}; "
            "leave out batch_shape"
        )
    for name, prior in _modules(part, Prior, inner).items():
        raise TypeError(
            f"to be saved, a model must have no priors on its parameters, got {type(prior).__name__} at "
            f"{place}.{name}; keep model.state_dict(), and load it into the model built anew by your own code"
        )


def constraints_of(part: nn.Module, inner: Iterable[str]) -> dict[str, Interval]:
    """The constraints of a part by name, without those of parts inside it."""
    return _modules(part, Interval, inner)


def _modules(part: nn.Module, cls: type[M], inner: Iterable[str]) -> dict[str, M]:
    """The modules of a class in a part, twice where it has them twice, without those of parts inside it."""
    modules = part.named_modules(remove_duplicate=False)
    inside = tuple(f"{name}." for name in inner)
    return {name: module for name, module in modules if isinstance(module, cls) and not name.startswith(inside)}


def describe_constraint(constraint: Interval, place: str) -> dict[str, str]:
    """Class and transform; bounds are tensors."""
    if type(constraint) not in CONSTRAINTS.values():
        refuse_to_save(place, CONSTRAINTS, constraint)
    used, inverse_used = constraint._transform, constraint._inv_transform  # for which there are no public names
    for name, (transform, inverse) in TRANSFORMS.items():
        same = used is transform or (name == "softplus" and _is_softplus(used))
        if same and inverse in (None, inverse_used):
            return {"class": type(constraint).__name__, "transform": name}
    raise TypeError(
        f"to be saved, a constraint must have a transform of {sorted(TRANSFORMS)} and its inverse, got others at "
        f"{place}; use one of those, or keep model.state_dict()"
    )


def build_constraint(entry: Any, tensors: Mapping[str, Tensor], place: str) -> Interval:
    """The constraint of a description, its bounds yet to be set."""
    if not isinstance(entry, dict):
        refuse(place, "a description", repr(entry)[:80])
    for key, known in (("class", CONSTRAINTS), ("transform", TRANSFORMS)):
        if not isinstance(entry.get(key), str) or entry[key] not in known:
            refuse(place, f"{key} one of {sorted(known)}", repr(entry.get(key))[:80])
    lower, upper = (tensors.get(f"{place}.{name}") for name in ("lower_bound", "upper_bound"))
    if lower is None or upper is None:
        refuse(place, "tensors lower_bound and upper_bound", "none")
    cls, transforms = CONSTRAINTS[entry["class"]], TRANSFORMS[entry["transform"]]
    if cls is Positive:
        return Positive(*transforms)
    if cls is Interval:
        return Interval(torch.zeros(lower.shape), torch.ones(upper.shape), *transforms)
    return cls(lower if cls is GreaterThan else upper, *transforms)


def _is_softplus(transform: object) -> bool:
    """Whether this is gpytorch's default, a module of which each copy of a model has its own."""
    return type(transform) is nn.Softplus and (transform.beta, transform.threshold) == (1.0, 20.0)
