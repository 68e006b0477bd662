"""Backbones in files: their tensors and the names of their parts, never their code.

`hybrid` puts a scaling behind the module that it is given, and `convert` cuts the front off a network. A file names the
parts of a backbone, so that the same can be done again to a module that is given to `load`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from torch import Tensor, fx, nn

from actgp.persistence.errors import refuse
from actgp.persistence.state import BACKBONE, mismatch

LIBRARIES = ("torch", "actgp")  # whose classes are told from others of the same name


def describe_backbone(backbone: nn.Module | None) -> dict[str, Any] | None:
    """Its parts, where it is a sequence or a graph of them; None without a backbone."""
    return None if backbone is None else {"parts": parts_of(backbone)}


def parts_of(module: nn.Module) -> list[str] | None:
    """The names of what a module calls, one after the other; None where only its code could tell."""
    if isinstance(module, fx.GraphModule):
        return [f"{node.op} {getattr(node.target, '__name__', node.target)}" for node in module.graph.nodes]
    return [_described(child) for child in module] if type(module) is nn.Sequential else None


def _described(module: nn.Module) -> str:
    parts = parts_of(module) if type(module) is nn.Sequential else None
    return _name_of(module) if parts is None else f"{_name_of(module)}({', '.join(parts)})"


def _name_of(module: nn.Module) -> str:
    """The name of a module's class; for those of users without the place, which may change."""
    library = type(module).__module__.partition(".")[0]
    return f"{library}.{type(module).__name__}" if library in LIBRARIES else type(module).__name__


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
        parts = entry.get("parts") if isinstance(entry, dict) else None
        if entry is not None and not isinstance(entry, dict):
            refuse("", "backbone of type dict or None", repr(entry)[:80])
        if parts is not None and not (isinstance(parts, list) and all(isinstance(name, str) for name in parts)):
            refuse("backbone", "a list of names as parts", repr(parts)[:80])
        own = {name: tensor for name, tensor in tensors.items() if name.startswith(BACKBONE)}
        return cls(entry is not None, parts, own)

    def resembles(self, module: nn.Module) -> bool:
        """Whether a module is, as it is, of the saved structure, or at least meant to be: of the same parts."""
        return mismatch(self.tensors, _named(module)) is None or parts_of(module) == (self.parts or [])

    def check(self, given: object) -> None:
        """Refuses a backbone that is missing, not needed, or of another structure than the one that was saved."""
        if not self.needed and given is not None:
            raise ValueError(
                f"a model without a backbone must be loaded without one, got {type(given).__name__}; leave backbone out"
            )
        if not self.needed:
            return
        if not isinstance(given, nn.Module):
            raise ValueError(
                f"a model with a backbone must be loaded with a module of the same structure, got {given!r}; files "
                "hold its tensors but not its code: pass backbone=…, built as it was before saving"
            )
        if difference := mismatch(self.tensors, _named(given)):
            raise ValueError(
                f"the backbone must have the structure of the one that was saved, with {difference.expected}, got "
                f"{difference.got}; build it as it was before saving: the model's backbone, the module that was given "
                "to hybrid, or the network that was given to convert"
            )
        own = parts_of(given)
        if self.parts is not None and own is not None and self.parts != own:
            pairs = zip_longest(self.parts, own, fillvalue="nothing")
            then, now = next((then, now) for then, now in pairs if then != now)
            raise ValueError(
                f"the backbone must have the parts of the one that was saved, {then}, got {now}; its tensors would "
                "fit, but it is another function: build it as it was before saving"
            )


def _named(module: nn.Module) -> dict[str, Tensor]:
    return {BACKBONE + name: tensor for name, tensor in module.state_dict(keep_vars=True).items()}
