"""The tensors of a model: taken from it whole, and given back only when every one of them fits."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpytorch.utils.quadrature import GaussHermiteQuadrature1D
from torch import Tensor, nn

from actgp import files
from actgp.blueprints.source import Source

KIND = "model"
BACKBONE = "backbone."
DATA = "data."
PACKAGE = "actgp."


class Description(NamedTuple):
    """A model, in words and tensors."""

    document: dict[str, Any]
    tensors: dict[str, Tensor]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file, from which `actgp.load` builds the model again."""
        files.write(path, KIND, self.document, self.tensors)


def describe_state(model: nn.Module, parts: dict[str, Any], data: Mapping[str, Tensor] | None = None) -> Description:
    """Adds a model's tensors to the description of its parts.

    Args:
        model: The model.
        parts: What it is made of.
        data: Tensors that belong to it but are no parameters.
    """
    if not type(model).__module__.startswith(PACKAGE):
        raise TypeError(
            f"to be saved, a model must be of a class of actgp, got {type(model).__name__}, whose code no file holds; "
            "keep model.state_dict(), and load it into the model built anew by your own code"
        )
    tensors: dict[str, Any] = {**model.state_dict(), **_quadratures(model)}
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"to be saved, a model's state must be tensors, got {type(value).__name__} as {name}; "
                "keep model.state_dict() instead"
            )
    first: dict[int, str] = {}
    parameters = list(model.named_parameters(remove_duplicate=False))
    tied = {name: first.setdefault(id(p), name) for name, p in parameters if not name.startswith(BACKBONE)}
    document = {
        "class": type(model).__name__,
        **parts,
        "frozen": [name for name, parameter in parameters if not parameter.requires_grad],
        "tied": {name: other for name, other in tied.items() if name != other},
    }
    return Description(document, tensors | {DATA + name: tensor for name, tensor in (data or {}).items()})


def give_state(model: nn.Module, source: Source) -> None:
    """Gives a model the tensors of a description, exactly as they are; changes nothing if one does not fit."""
    own: dict[str, Tensor] = {**model.state_dict(keep_vars=True), **_quadratures(model)}
    given = {name: tensor for name, tensor in source.tensors.items() if not name.startswith(DATA)}
    if difference := mismatch(own, given):
        source.refuse(*difference)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    frozen, tied = source.get("frozen", list), source.get("tied", dict)
    for name in (*frozen, *tied, *tied.values()):
        if not isinstance(name, str) or name not in parameters:
            source.refuse("names of parameters under frozen and tied", repr(name)[:80])
    for name, other in tied.items():
        if given[name].shape != given[other].shape:
            source.refuse(f"{name} of the shape of {other}, to which it is tied", str(list(given[name].shape)))
    for name, tensor in own.items():
        tensor.data = given[name].to(tensor.device, copy=True)
    for name, parameter in parameters.items():
        parameter.requires_grad_(name not in frozen)
    for name, other in tied.items():
        owner, _, own_name = name.rpartition(".")
        setattr(model.get_submodule(owner), own_name, parameters[other])


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


def _quadratures(model: nn.Module) -> dict[str, Tensor]:
    """Nodes and weights of one-dimensional likelihoods, which are no buffers, but follow the model's precision."""
    return {
        f"{name}.{own}": tensor
        for name, part in model.named_modules()
        if isinstance(part, GaussHermiteQuadrature1D)
        for own, tensor in (("locations", part.locations), ("weights", part.weights))
    }
