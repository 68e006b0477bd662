"""The tensors of a module: taken from it whole, and given back only when every one of them fits.

Of a backbone, a user's own module, a file holds the tensors and the names of its parts, never its code. `hybrid` puts a
scaling behind the module that it is given, and `convert_weights` cuts the front off a network: from the names of
the parts `load` knows what to do again to the module that it is given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from gpytorch.utils.quadrature import GaussHermiteQuadrature1D
from torch import Tensor, fx, nn

from actgp.persistence.classes import refuse

BACKBONE = "backbone."
LIBRARIES = ("torch", "actgp")  # whose classes are distinguished from others of the same name


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """All tensors that a module computes with, by name, as they are."""
    tensors: dict[str, Any] = module.state_dict(keep_vars=True)
    for name, part in module.named_modules():
        if isinstance(part, GaussHermiteQuadrature1D):  # whose nodes are no buffers, but have the model's precision
            tensors |= {f"{name}.locations": part.locations, f"{name}.weights": part.weights}
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


def mismatch(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> tuple[str, str] | None:
    """The first difference in names, shapes or kinds of number, as what was expected and what there is."""
    for name in sorted(expected.keys() ^ given.keys()):
        return (f"a tensor {name}", "none") if name in expected else (f"no tensor {name}", "one")
    for name, tensor in expected.items():
        shape, other = list(tensor.shape), list(given[name].shape)
        if shape != other:
            return f"{name} of shape {shape}", str(other)
        both_real = tensor.is_floating_point() and given[name].is_floating_point()
        if not both_real and tensor.dtype != given[name].dtype:
            return f"{name} of a dtype like {tensor.dtype}", str(given[name].dtype)
    return None


def parts_of(module: nn.Module) -> list[str] | None:
    """The names of what a module calls, one after the other; None where only its code could tell."""
    if isinstance(module, fx.GraphModule):
        return [f"{node.op} {getattr(node.target, '__name__', node.target)}" for node in module.graph.nodes]
    return [_in_words(child) for child in module] if type(module) is nn.Sequential else None


def _in_words(module: nn.Module) -> str:
    """The name of a module's class, for those of users without the place, which may change; and parts of a sequence."""
    library, cls = type(module).__module__.partition(".")[0], type(module)
    name = f"{library}.{cls.__name__}" if library in LIBRARIES else cls.__name__
    return f"{name}({', '.join(parts_of(module) or [])})" if cls is nn.Sequential else name


@dataclass(frozen=True)
class SavedBackbone:
    """What a file knows of a backbone.

    Attributes:
        needed: Whether there is one.
        parts: The names of its parts, if the file has them.
        tensors: Its tensors, by their names in the model.
    """

    needed: bool
    parts: list[str] | None
    tensors: Mapping[str, Tensor]

    @classmethod
    def of(cls, document: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> "SavedBackbone":
        """The backbone in the description of a model."""
        entry = document.get("backbone")
        if entry is not None and not isinstance(entry, dict):
            refuse("", "backbone of type dict or None", repr(entry)[:80])
        parts = None if entry is None else entry.get("parts")
        if parts is not None and not (isinstance(parts, list) and all(isinstance(name, str) for name in parts)):
            refuse("backbone", "a list of names as parts", repr(parts)[:80])
        own = {name: tensor for name, tensor in tensors.items() if name.startswith(BACKBONE)}
        return cls(entry is not None, parts, own)

    def resembles(self, module: nn.Module) -> bool:
        """Whether a module is, as it is, of the saved structure, or at least meant to be: of the same parts."""
        return self._mismatch(module) is None or parts_of(module) == (self.parts or [])

    def check(self, given: object) -> None:
        """Refuses a backbone that is missing, not needed, or of another structure than the one that was saved."""
        if not self.needed:
            if given is None:
                return
            raise ValueError(
                f"a model without a backbone must be loaded without one, got {type(given).__name__}; leave backbone out"
            )
        if not isinstance(given, nn.Module):
            raise ValueError(
                f"a model with a backbone must be loaded with a module of the same structure, got {given!r}; files "
                "hold its tensors but not its code: pass backbone=…, built as it was before saving"
            )
        if difference := self._mismatch(given):
            expected, got = difference
            raise ValueError(
                f"the backbone must have the structure of the one that was saved, with {expected}, got {got}; build it "
                "as it was before saving: the model's backbone, the module that was given to hybrid, or the network "
                "that was given to convert"
            )
        own = parts_of(given)
        if self.parts is not None and own is not None and self.parts != own:
            pairs = zip_longest(self.parts, own, fillvalue="nothing")
            then, now = next((then, now) for then, now in pairs if then != now)
            raise ValueError(
                f"the backbone must have the parts of the one that was saved, {then}, got {now}; its tensors would "
                "fit, but it is another function: build it as it was before saving"
            )

    def _mismatch(self, module: nn.Module) -> tuple[str, str] | None:
        own = {BACKBONE + name: tensor for name, tensor in module.state_dict(keep_vars=True).items()}
        return mismatch(self.tensors, own)
