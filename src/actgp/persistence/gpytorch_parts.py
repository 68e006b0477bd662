"""What gpytorch's classes, which have no `config()`, are made of: kernels, likelihoods and constraints."""

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
from actgp.persistence.registry import Savable, Sizes, register

Transform = Callable[[Tensor], Tensor]
M = TypeVar("M", bound=nn.Module)

ACTIVE = {"active_dims": Sequence[int] | None}
INPUTS = {"ard_num_dims": int | None, **ACTIVE}
LENGTHSCALES: Sizes = {"raw_lengthscale": (1, "ard_num_dims")}
VARIANCES: Sizes = {"raw_variance": (1, "ard_num_dims")}
# Arguments that are attributes of the same name, and what a file must hold for them.
ATTRIBUTES: dict[type[nn.Module], tuple[dict[str, Any], Sizes]] = {
    gpk.RBFKernel: (INPUTS, LENGTHSCALES),
    gpk.MaternKernel: ({"nu": float, **INPUTS}, LENGTHSCALES),
    gpk.RQKernel: (INPUTS, LENGTHSCALES),
    gpk.PeriodicKernel: (INPUTS, LENGTHSCALES),
    gpk.LinearKernel: (INPUTS, VARIANCES),
    gpk.PolynomialKernel: ({"power": int, **INPUTS}, {}),
    gpk.CosineKernel: (INPUTS, {}),
    gpk.ConstantKernel: (ACTIVE, {}),
    gpk.ScaleKernel: ({"base_kernel": Kernel, **ACTIVE}, {}),
    gpk.AdditiveKernel: ({"kernels": Sequence[Kernel]}, {}),
    gpk.ProductKernel: ({"kernels": Sequence[Kernel]}, {}),
    gpl.GaussianLikelihood: ({}, {}),
    gpl.StudentTLikelihood: ({}, {}),
    gpl.LaplaceLikelihood: ({}, {}),
    gpl.BernoulliLikelihood: ({}, {}),
    gpl.BetaLikelihood: ({}, {}),
    gpl.PoissonLikelihood: ({}, {}),
    gpl.NegativeBinomialLikelihood: ({"num_failures_param": bool}, {}),
}
CONSTRAINTS: dict[str, type[Interval]] = {c.__name__: c for c in (Interval, GreaterThan, LessThan, Positive)}
TRANSFORMS: dict[str, tuple[Transform | None, Transform | None]] = {
    "softplus": (nn.functional.softplus, inv_softplus),
    "sigmoid": (torch.sigmoid, inv_sigmoid),
    "exp": (torch.exp, torch.log),
    "none": (None, None),
}


def _with_attributes(cls: type[nn.Module], hints: dict[str, Any], sizes: Sizes) -> Savable:
    def build(kernels: Sequence[Kernel] = (), **arguments: Any) -> nn.Module:
        return cls(*kernels, **{name: value for name, value in arguments.items() if value is not None})

    return Savable(cls, lambda part: {name: _plain(getattr(part, name)) for name in hints}, build, hints, sizes)


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist()
    return list(value) if isinstance(value, nn.ModuleList) else value


def _softmax(num_classes: int, num_features: int | None) -> Likelihood:
    return gpl.SoftmaxLikelihood(num_features, num_classes, mixing_weights=num_features is not None)


def _of_softmax(likelihood: gpl.SoftmaxLikelihood) -> dict[str, int | None]:
    mixing = likelihood.mixing_weights is not None
    return {"num_classes": likelihood.num_classes, "num_features": likelihood.num_features if mixing else None}


for _cls, _parts in ATTRIBUTES.items():
    register(_with_attributes(_cls, *_parts))
_WEIGHTS: Sizes = {"mixing_weights": ("num_classes", "num_features")}
register(
    Savable(gpl.SoftmaxLikelihood, _of_softmax, _softmax, {"num_classes": int, "num_features": int | None}, _WEIGHTS)
)


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
    modules, inside = part.named_modules(remove_duplicate=False), tuple(f"{name}." for name in inner)
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
