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

from actgp.gpytorch_names import COUNT_LIKELIHOODS
from actgp.persistence.classes import Savable, Sizes, refuse, refuse_to_save, register

Transform = Callable[[Tensor], Tensor]
M = TypeVar("M", bound=nn.Module)

ARD = {"ard_num_dims": int | None}
KERNELS = {"kernels": Sequence[Kernel]}
ACTIVE_DIMS = {"active_dims": Sequence[int] | None}  # of all kernels but those made of several
LENGTHSCALES: Sizes = {"raw_lengthscale": (1, "ard_num_dims")}
# Arguments that are attributes of the same name, and what a file must hold for them.
ATTRIBUTES: dict[type[nn.Module], tuple[dict[str, Any], Sizes]] = {
    gpk.RBFKernel: (ARD, LENGTHSCALES),
    gpk.MaternKernel: ({"nu": float, **ARD}, LENGTHSCALES),
    gpk.RQKernel: (ARD, LENGTHSCALES),
    gpk.PeriodicKernel: (ARD, LENGTHSCALES),
    gpk.LinearKernel: (ARD, {"raw_variance": (1, "ard_num_dims")}),
    gpk.PolynomialKernel: ({"power": int, **ARD}, {}),
    gpk.CosineKernel: (ARD, {}),
    gpk.ConstantKernel: ({}, {}),
    gpk.ScaleKernel: ({"base_kernel": Kernel}, {}),
    gpk.AdditiveKernel: (KERNELS, {}),
    gpk.ProductKernel: (KERNELS, {}),
    gpl.GaussianLikelihood: ({}, {}),
    gpl.StudentTLikelihood: ({}, {}),
    gpl.LaplaceLikelihood: ({}, {}),
    gpl.BernoulliLikelihood: ({}, {}),
    gpl.BetaLikelihood: ({}, {}),
}
COUNT_ARGUMENTS = {"PoissonLikelihood": {}, "NegativeBinomialLikelihood": {"num_failures_param": bool}}
ATTRIBUTES |= {cls: (COUNT_ARGUMENTS[name], {}) for name, cls in COUNT_LIKELIHOODS.items()}
CONSTRAINTS: dict[str, type[Interval]] = {c.__name__: c for c in (Interval, GreaterThan, LessThan, Positive)}
TRANSFORMS: dict[str, tuple[Transform | None, Transform | None]] = {
    "softplus": (nn.functional.softplus, inv_softplus),
    "sigmoid": (torch.sigmoid, inv_sigmoid),
    "exp": (torch.exp, torch.log),
    "none": (None, None),
}


def _register_by_attributes(cls: type[nn.Module], hints: dict[str, Any], sizes: Sizes) -> None:
    def config(part: nn.Module) -> dict[str, Any]:
        values = {name: getattr(part, name) for name in hints}
        return {name: list(value) if isinstance(value, nn.ModuleList) else value for name, value in values.items()}

    def build(kernels: Sequence[Kernel] = (), **arguments: Any) -> nn.Module:
        return cls(*kernels, **{name: value for name, value in arguments.items() if value is not None})

    active = ACTIVE_DIMS if issubclass(cls, Kernel) and "kernels" not in hints else {}
    register(Savable(cls, config, build, hints | active, frozenset(hints), sizes))


def _config_of_softmax(likelihood: gpl.SoftmaxLikelihood) -> dict[str, int | None]:
    mixing = likelihood.mixing_weights is not None
    return {"num_classes": likelihood.num_classes, "num_features": likelihood.num_features if mixing else None}


def _softmax(num_classes: int, num_features: int | None) -> Likelihood:
    return gpl.SoftmaxLikelihood(num_features, num_classes, mixing_weights=num_features is not None)


for _cls, (_hints, _sizes) in ATTRIBUTES.items():
    _register_by_attributes(_cls, _hints, _sizes)
_HINTS = {"num_classes": int, "num_features": int | None}
_WEIGHTS: Sizes = {"mixing_weights": ("num_classes", "num_features")}
register(Savable(gpl.SoftmaxLikelihood, _config_of_softmax, _softmax, _HINTS, frozenset(_HINTS), _WEIGHTS))


def active_dims_of(part: nn.Module) -> dict[str, list[int] | None]:
    """The inputs that a kernel is given, an argument of all kernels."""
    if not isinstance(part, Kernel):
        return {}
    return {"active_dims": None if part.active_dims is None else part.active_dims.tolist()}


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
    """Class and transform, which is found by its values; bounds are tensors."""
    if type(constraint) not in CONSTRAINTS.values():
        refuse_to_save(place, CONSTRAINTS, constraint)
    for name in TRANSFORMS:
        twin = _constraint(type(constraint), name, constraint.lower_bound, constraint.upper_bound)
        twin.lower_bound, twin.upper_bound = constraint.lower_bound, constraint.upper_bound
        if torch.allclose(_values(twin), _values(constraint), rtol=0, atol=0, equal_nan=True):
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
    return _constraint(CONSTRAINTS[entry["class"]], entry["transform"], lower, upper)


def _constraint(cls: type[Interval], transform: str, lower: Tensor, upper: Tensor) -> Interval:
    """A constraint with bounds of these shapes, which are yet to be set: gpytorch rounds those that it is given."""
    if cls is Positive:
        return Positive(*TRANSFORMS[transform])
    if cls is Interval:
        return Interval(torch.zeros(lower.shape), torch.ones(upper.shape), *TRANSFORMS[transform])
    return cls(lower if cls is GreaterThan else upper, *TRANSFORMS[transform])


def _values(constraint: Interval) -> Tensor:
    """What it makes of some numbers, and what its inverse makes of that."""
    bound = constraint.lower_bound
    raw = torch.linspace(-5.0, 5.0, 11, dtype=torch.float64, device=bound.device).reshape(-1, *[1] * bound.ndim)
    values = constraint.transform(raw)
    return torch.cat([values, constraint.inverse_transform(values)])
