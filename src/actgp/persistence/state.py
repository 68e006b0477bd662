"""The tensors of a module: taken from it whole, and given back only when every one of them fits."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gpytorch.utils.quadrature import GaussHermiteQuadrature1D
from torch import Tensor, nn

from actgp.persistence.errors import refuse

BACKBONE = "backbone."


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """All tensors that a module computes with, by name, as they are."""
    tensors: dict[str, Any] = {**module.state_dict(keep_vars=True), **_quadratures(module)}
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"to be saved, a model's state must be tensors, got {type(value).__name__} as {name}; "
                "keep model.state_dict() instead"
            )
    return tensors


def describe_flags(module: nn.Module) -> dict[str, Any]:
    """Which parameters are frozen, and which are one and the same."""
    first: dict[int, str] = {}
    parameters = list(module.named_parameters(remove_duplicate=False))
    tied = {name: first.setdefault(id(p), name) for name, p in parameters if not name.startswith(BACKBONE)}
    return {
        "frozen": [name for name, parameter in parameters if not parameter.requires_grad],
        "tied": {name: other for name, other in tied.items() if name != other},
    }


def check_state(module: nn.Module, entry: Mapping[str, Any], given: Mapping[str, Tensor], place: str) -> None:
    """Refuses tensors and flags that do not fit a module."""
    if difference := mismatch(tensors_of(module), given):
        refuse(place, *difference)
    parameters = dict(module.named_parameters(remove_duplicate=False))
    frozen, tied = entry.get("frozen"), entry.get("tied")
    if not isinstance(frozen, list) or not isinstance(tied, dict):
        refuse(place, "frozen of type list and tied of type dict", repr((frozen, tied))[:80])
    for name in (*frozen, *tied, *tied.values()):
        if not isinstance(name, str) or name not in parameters:
            refuse(place, "names of parameters under frozen and tied", repr(name)[:80])
    for name, other in tied.items():
        if given[name].shape != given[other].shape:
            refuse(place, f"{name} of the shape of {other}, to which it is tied", str(list(given[name].shape)))


def give_tensors(module: nn.Module, given: Mapping[str, Tensor], *, backbone: bool) -> None:
    """Gives a module its tensors exactly as they are: those of its backbone, or all others."""
    for name, tensor in tensors_of(module).items():
        if name.startswith(BACKBONE) is backbone:
            tensor.data = given[name].to(tensor.device, copy=True)


def give_flags(module: nn.Module, frozen: list[str], tied: dict[str, str]) -> None:
    """Freezes and ties parameters as they were."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for name, parameter in parameters.items():
        parameter.requires_grad_(name not in frozen)
    for name, other in tied.items():
        owner, _, own_name = name.rpartition(".")
        setattr(module.get_submodule(owner), own_name, parameters[other])


class Mismatch(NamedTuple):
    """What tensors should be, and are not."""

    expected: str
    got: str


def mismatch(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> Mismatch | None:
    """The first difference in names, shapes or kinds of number, if there is one."""
    for name in sorted(expected.keys() ^ given.keys()):
        return Mismatch(f"a tensor {name}", "none") if name in expected else Mismatch(f"no tensor {name}", "one")
    for name, tensor in expected.items():
        shape, other = list(tensor.shape), list(given[name].shape)
        if shape != other:
            return Mismatch(f"{name} of shape {shape}", str(other))
        both_real = tensor.is_floating_point() and given[name].is_floating_point()
        if not both_real and tensor.dtype != given[name].dtype:
            return Mismatch(f"{name} of a dtype like {tensor.dtype}", str(given[name].dtype))
    return None


def _quadratures(module: nn.Module) -> dict[str, Tensor]:
    """Nodes and weights of one-dimensional likelihoods, which are no buffers, but follow the model's precision."""
    return {
        f"{name}.{own}": tensor
        for name, part in module.named_modules()
        if isinstance(part, GaussHermiteQuadrature1D)
        for own, tensor in (("locations", part.locations), ("weights", part.weights))
    }
