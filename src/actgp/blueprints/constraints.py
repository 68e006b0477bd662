"""Constraints of gpytorch modules: their classes and transforms in words, their bounds as tensors."""

from collections.abc import Callable
from typing import Any

import torch
from gpytorch import Module
from gpytorch.constraints import GreaterThan, Interval, LessThan, Positive
from gpytorch.utils.transforms import inv_sigmoid, inv_softplus
from torch import Tensor, nn

from actgp.blueprints.source import Source, refuse_to_save

Transform = Callable[[Tensor], Tensor]

CLASSES: dict[str, type[Interval]] = {c.__name__: c for c in (Interval, GreaterThan, LessThan, Positive)}
TRANSFORMS: dict[str, tuple[Transform | None, Transform | None]] = {
    "softplus": (nn.functional.softplus, inv_softplus),
    "sigmoid": (torch.sigmoid, inv_sigmoid),
    "exp": (torch.exp, torch.log),
    "none": (None, None),
}
SUFFIX = "_constraint"


def describe_constraints(module: Module, place: str) -> dict[str, Any]:
    """Class and transform of each constraint in a module, by name; priors are refused."""
    for name, _, prior, _, _ in module.named_priors():
        raise TypeError(
            f"to be saved, a model must have no priors on its parameters, got {type(prior).__name__} at "
            f"{place}.{name}; keep model.state_dict(), and load it into the model built anew by your own code"
        )
    return {name: _describe(constraint, f"{place}.{name}") for name, constraint in _constraints(module).items()}


def build_constraints(module: Module, source: Source) -> None:
    """Gives a module the constraints of a description; their bounds come with the other tensors."""
    described = source.get("constraints", dict)
    defaults = _constraints(module)
    if set(described) != set(defaults):
        source.refuse(f"constraints of {sorted(defaults)}", str(sorted(described))[:80])
    for name in defaults:
        if not isinstance(described[name], dict):
            source.refuse("constraints that are descriptions", repr(described[name])[:80])
        entry = Source(described[name], source.tensors, f"{source.prefix}{name}.")
        owner, _, own_name = name.rpartition(".")
        module.get_submodule(owner).register_constraint(own_name.removesuffix(SUFFIX), _build(entry))


def _constraints(module: Module) -> dict[str, Interval]:
    """All constraints by name; those of a module that appears twice, under both names."""
    parts = module.named_modules(remove_duplicate=False)
    owners = {name: part for name, part in parts if isinstance(part, Module)}
    return {
        f"{name}.{own}".lstrip("."): constraint
        for name, part in owners.items()
        for own, constraint in part._constraints.items()
    }


def _describe(constraint: Interval, place: str) -> dict[str, str]:
    if type(constraint) not in CLASSES.values():
        refuse_to_save("a constraint", sorted(CLASSES), constraint, place)
    used, inverse_used = constraint._transform, constraint._inv_transform
    for name, (transform, inverse) in TRANSFORMS.items():
        same = used is transform or (name == "softplus" and _is_softplus(used))
        if same and inverse in (None, inverse_used):
            return {"class": type(constraint).__name__, "transform": name}
    raise TypeError(
        f"to be saved, a constraint must have a transform of {sorted(TRANSFORMS)} and its inverse, got others at "
        f"{place}; use one of those, or keep model.state_dict()"
    )


def _is_softplus(transform: object) -> bool:
    """Whether this is gpytorch's default, a module of which each copy of a model has its own."""
    return type(transform) is nn.Softplus and (transform.beta, transform.threshold) == (1.0, 20.0)


def _build(source: Source) -> Interval:
    constraint_class = source.choose("class", CLASSES)
    transform, inverse = source.choose("transform", TRANSFORMS)
    lower, upper = (source.tensors.get(source.prefix + name) for name in ("lower_bound", "upper_bound"))
    if lower is None or upper is None:
        source.refuse("tensors lower_bound and upper_bound", "none")
    if constraint_class is Positive:
        return Positive(transform, inverse)
    if constraint_class is GreaterThan:
        return GreaterThan(torch.zeros(lower.shape), transform, inverse)
    if constraint_class is LessThan:
        return LessThan(torch.zeros(upper.shape), transform, inverse)
    return Interval(torch.zeros(lower.shape), torch.ones(upper.shape), transform, inverse)
