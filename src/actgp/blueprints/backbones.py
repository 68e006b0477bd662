"""Backbones in files: their tensors and the names of their parts, never their code.

`hybrid` puts a scaling behind the module that it is given, and `convert` cuts the front off a network. A file names the
parts of a backbone, so that the same can be done again to a module that is given to `load`.
"""

from itertools import zip_longest
from typing import Any

from torch import fx, nn

from actgp.blueprints.source import Source
from actgp.blueprints.state import BACKBONE, Mismatch, mismatch

LIBRARIES = ("torch", "actgp")  # whose classes are told from others of the same name


def describe_backbone(backbone: nn.Module | None) -> dict[str, Any]:
    """Whether there is one, and its parts, where it is a sequence or a graph of them."""
    parts = None if backbone is None else parts_of(backbone)
    return {"backbone": backbone is not None} | ({} if parts is None else {"parts": parts})


def parts_of(module: nn.Module) -> list[str] | None:
    """The names of what a module calls, one after the other; None where only its code could tell."""
    if isinstance(module, fx.GraphModule):
        return [f"{node.op} {getattr(node.target, '__name__', node.target)}" for node in module.graph.nodes]
    return [_described(child) for child in module] if type(module) is nn.Sequential else None


def _described(module: nn.Module) -> str:
    parts = parts_of(module) if type(module) is nn.Sequential else None
    return name_of(module) if parts is None else f"{name_of(module)}({', '.join(parts)})"


def name_of(module: nn.Module) -> str:
    """The name of a module's class; for those of users without the place, which may change."""
    library = type(module).__module__.partition(".")[0]
    return f"{library}.{type(module).__name__}" if library in LIBRARIES else type(module).__name__


def saved_parts(source: Source) -> list[str] | None:
    """The parts that a file names, if it does."""
    if source.entries.get("parts") is None:
        return None
    parts = source.get("parts", list)
    if not all(isinstance(name, str) for name in parts):
        source.refuse("a list of names as parts", repr(parts)[:80])
    return parts


def is_the_backbone(source: Source, module: nn.Module) -> bool:
    """Whether a module is, as it is, a backbone of the saved structure, or at least meant to be: of the same parts."""
    return _mismatch(source, module) is None or parts_of(module) == (saved_parts(source) or [])


def check_backbone(source: Source, backbone: nn.Module | None) -> None:
    """Refuses a backbone that is missing, not needed, or of another structure than the one that was saved."""
    needed = source.entries.get("backbone", False) is True
    if not needed and backbone is not None:
        raise ValueError(
            f"a model without a backbone must be loaded without one, got {type(backbone).__name__}; leave backbone out"
        )
    if needed and not isinstance(backbone, nn.Module):
        raise ValueError(
            f"a model with a backbone must be loaded with a module of the same structure, got {backbone!r}; files hold "
            "its tensors but not its code: pass backbone=…, built as it was before saving"
        )
    if backbone is not None and (difference := _mismatch(source, backbone)):
        raise ValueError(
            f"the backbone must have the structure of the one that was saved, with {difference.expected}, got "
            f"{difference.got}; build it as it was before saving: the model's backbone, the module that was given to "
            "hybrid, or the network that was given to convert"
        )
    if backbone is not None and (names := _other_parts(source, backbone)):
        raise ValueError(
            f"the backbone must have the parts of the one that was saved, {names[0]}, got {names[1]}; its tensors "
            "would fit, but it is another function: build it as it was before saving"
        )


def _other_parts(source: Source, module: nn.Module) -> tuple[str, str] | None:
    """The first part that was saved, and the first of a module, that differ; None where none does, or none is known."""
    saved, own = saved_parts(source), parts_of(module)
    if saved is None or own is None or saved == own:
        return None
    pairs = zip_longest(saved, own, fillvalue="nothing")
    return next((then, now) for then, now in pairs if then != now)


def _mismatch(source: Source, module: nn.Module) -> Mismatch | None:
    """How a module's tensors differ from those that were saved; None where they do not."""
    saved = {name: tensor for name, tensor in source.tensors.items() if name.startswith(BACKBONE)}
    own = {BACKBONE + name: tensor for name, tensor in module.state_dict(keep_vars=True).items()}
    return mismatch(saved, own)
