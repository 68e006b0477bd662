"""What a thing is made of, in words and tensors, and the same thing built again from them.

A description is a dictionary: the name of a class, and what its `config()` gives (`registry`). Descriptions come from
files, and files from anywhere: every entry is checked against the annotations of the constructor before it is used, and
what was built must describe itself by the same words. Then it is given its tensors.
"""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from actgp.persistence import archive
from actgp.persistence.backbones import describe_backbone
from actgp.persistence.errors import DescriptionError, refuse, refuse_to_save
from actgp.persistence.gpytorch_parts import build_constraint, check_part, constraints_of, describe_constraint
from actgp.persistence.registry import Savable, allows, items, savable_as, savable_for, takes_tensor, told
from actgp.persistence.state import check_state, describe_flags, give_flags, give_tensors, tensors_of

DEEPEST = 24  # names in the place of a part
LARGEST = {"num_levels": 1_000, "num_classes": 1_000_000}  # energies are computed anew, in minutes at this size
OWN = ("class", "constraints", "frozen", "tied")  # entries that are no arguments
SUFFIX = "_constraint"


class Description(NamedTuple):
    """A thing, in words and tensors."""

    document: dict[str, Any]
    tensors: dict[str, Tensor]


def describe(thing: object) -> Description:
    """A thing in words and tensors, for files; refuses parts that are code."""
    tensors: dict[str, Tensor] = {}
    return Description(_Describing(tensors).part(thing, type(thing), ""), tensors)


def save(thing: object, path: str | os.PathLike[str], kind: str = "model") -> None:
    """Writes a thing to a file of a kind, all of it at once, from which `actgp.load` builds it again."""
    archive.write(path, kind, *describe(thing))


def words(thing: object, place: str = "") -> dict[str, Any]:
    """What a thing is made of, without its state."""
    return _Describing(None).part(thing, type(thing), place)


def rebuild(
    document: dict[str, Any], tensors: Mapping[str, Tensor], backbone: nn.Module | None = None, hint: Any = object
) -> Any:
    """Builds what `describe` has described.

    Args:
        document: The words.
        tensors: The tensors.
        backbone: The module that a model has as its backbone, of which a file holds the tensors; it is given them.
        hint: What it must be, as in an annotation.
    """
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore", UserWarning)  # whoever built it has seen them
        return _Building(tensors, backbone, set()).part(document, hint, "")


@dataclass(frozen=True)
class _Describing:
    """Words, and tensors if there is a place for them; None for words alone."""

    tensors: dict[str, Tensor] | None

    def part(self, thing: Any, hint: Any, place: str, inside: bool = False) -> dict[str, Any]:
        saved = savable_as(thing)
        if saved is None:
            known = savable_for(hint) or savable_for(type(thing).__mro__[1])
            refuse_to_save(place, known, thing)
        if place.count(".") > DEEPEST:
            raise ValueError(f"to be saved, parts must be at most {DEEPEST} deep, got {place}; nest them less")
        entry: dict[str, Any] = {"class": saved.cls.__name__}
        is_module = isinstance(thing, nn.Module)
        config = saved.config(thing)
        for key, value in config.items():
            name = _argument(key)
            entry[key] = self.value(value, saved.arguments[name].annotation, _join(place, key), is_module)
        if is_module:
            check_part(thing, config, place)
            if constraints := constraints_of(thing, config):
                entry["constraints"] = {
                    name: describe_constraint(constraint, _join(place, name))
                    for name, constraint in constraints.items()
                }
            if not inside and self.tensors is not None:
                entry |= describe_flags(thing)
                self.tensors.update({_join(place, name): tensor for name, tensor in tensors_of(thing).items()})
        return entry

    def value(self, value: Any, hint: Any, place: str, inside: bool) -> Any:
        if _argument(place) == "backbone":
            return describe_backbone(value)
        if isinstance(value, Tensor):
            if self.tensors is not None:
                self.tensors[place] = value
            return {"tensor": place}
        item = items(hint)
        if isinstance(value, list) and item is not None:
            return [self.value(each, item, f"{place}.{i}", inside) for i, each in enumerate(value)]
        if not isinstance(value, None | bool | int | float | str):
            return self.part(value, hint, place, inside)
        largest = LARGEST.get(_argument(place))
        if isinstance(value, int) and largest is not None and value > largest:
            raise ValueError(
                f"to be saved, {_argument(place)} must be at most {largest}, got {value} at {_owner(place)}; lower it, "
                "or keep model.state_dict()"
            )
        if not allows(hint, value):
            raise TypeError(
                f"to be saved, {place} must be {told(hint)}, got {value!r}; change it, or keep model.state_dict()"
            )
        return value


@dataclass(frozen=True)
class _Building:
    """Things from words and tensors, of which those that were arguments are noted."""

    tensors: Mapping[str, Tensor]
    backbone: nn.Module | None
    used: set[str]

    def part(self, entry: dict[str, Any], hint: Any, place: str, inside: bool = False) -> Any:
        if place.count(".") > DEEPEST:
            refuse(place, f"at most {DEEPEST} names in its place", "more")
        saved, known = entry.get("class"), savable_for(hint)
        if not isinstance(saved, str):
            refuse(place, "class of type str", repr(saved)[:80])
        if saved not in known:
            refuse(place, f"class one of {sorted(known)}", repr(saved)[:80])
        thing = self._construct(known[saved], entry, place)
        if isinstance(thing, nn.Module) and not inside:
            self._restore(thing, entry, place)
        elif not place:
            _compare(describe(thing).document, entry, place)
        return thing

    def _construct(self, saved: Savable, entry: dict[str, Any], place: str) -> Any:
        arguments: dict[str, Any] = {}
        is_module = issubclass(saved.cls, nn.Module)
        for key, value in entry.items():
            if key in OWN:
                continue
            if (name := _argument(key)) not in saved.arguments:
                refuse(place, f"no entry {key[:80]}", repr(value)[:80])
            arguments[name] = self._value(value, saved.arguments[name].annotation, _join(place, key), is_module)
        seen = {_argument(name) for name in saved.sizes} | {
            _split(axis)[0] for axes in saved.sizes.values() for axis in axes
        }
        for name, argument in saved.arguments.items():
            if argument.default is argument.empty and name not in arguments and name not in seen:
                refuse(place, f"{name} {told(argument.annotation)}", "None")
        arguments |= self._sizes(saved, arguments, place)
        try:
            thing = saved.build(**arguments)
            if isinstance(thing, nn.Module):
                for value in arguments.values():
                    if isinstance(value, Tensor):
                        thing.to(value.dtype)  # data that are no parameters keep the precision that they had
                self._constrain(thing, entry, place)
        except DescriptionError:
            raise
        except (ValueError, TypeError, RuntimeError, IndexError, OverflowError) as error:
            raise DescriptionError(
                f"the description of {place or 'the model'} must be one that can be built, got one that cannot "
                f"({error}); write it with the model's save"
            ) from error
        return thing

    def _value(self, entry: Any, hint: Any, place: str, inside: bool) -> Any:
        name = _argument(place)
        if name == "backbone":
            return self.backbone
        if isinstance(entry, dict) and takes_tensor(hint):
            if (found := self.tensors.get(place)) is None:
                refuse(_owner(place), f"a tensor {name}", "none")
            self.used.add(place)
            return found
        if isinstance(entry, dict) and savable_for(hint):
            return self.part(entry, hint, place, inside)
        item = items(hint)
        if isinstance(entry, list) and item is not None:
            return [self._value(each, item, f"{place}.{i}", inside) for i, each in enumerate(entry)]
        if isinstance(entry, dict | list) or not allows(hint, entry):
            refuse(_owner(place), f"{name} {told(hint)}", repr(entry)[:80])
        if isinstance(entry, int) and name in LARGEST and not 1 <= entry <= LARGEST[name]:
            refuse(_owner(place), f"{name} from 1 to {LARGEST[name]}", str(entry)[:80])
        return entry

    def _sizes(self, saved: Savable, arguments: dict[str, Any], place: str) -> dict[str, Any]:
        """Arguments that are seen from the tensors, all of which must fit together."""
        known: dict[str, Any] = dict(arguments)
        for tensor, axes in saved.sizes.items():
            wanted = [_size(axis, known) for axis in axes]
            if None in wanted:
                continue
            shape = ["any" if size < 0 else size for size in wanted]  # type: ignore[operator]
            found = self.tensors.get(_join(place, tensor))
            if found is None:
                refuse(place, f"a tensor {tensor} of shape {shape}", "none")
            got = list(found.shape)
            if len(got) != len(shape) or any(s not in ("any", n) for s, n in zip(shape, got, strict=True)):
                refuse(place, f"a tensor {tensor} of shape {shape}", str(got))
            for axis, size in zip(axes, got, strict=True):
                name, more = _split(axis)
                known.setdefault(name, size - more)
            known.setdefault(_argument(tensor), torch.zeros(got))
        return {name: value for name, value in known.items() if name in saved.arguments}

    def _constrain(self, part: nn.Module, entry: dict[str, Any], place: str) -> None:
        """Gives a part the constraints that it had; their bounds come with the other tensors."""
        described, own = entry.get("constraints", {}), constraints_of(part, entry)
        if not isinstance(described, dict) or described.keys() != own.keys():
            refuse(place, f"constraints of {sorted(own)}", str(described)[:80])
        for name in own:
            owner, _, parameter = name.rpartition(".")
            constraint = build_constraint(described[name], self.tensors, _join(place, name))
            owning: Any = part.get_submodule(owner)
            owning.register_constraint(parameter.removesuffix(SUFFIX), constraint)

    def _restore(self, module: nn.Module, entry: dict[str, Any], place: str) -> None:
        """Gives a module its state, and its backbone last, when nothing can go wrong any more."""
        start = _join(place, "")
        mine = {name for name in self.tensors if name.startswith(start)} - self.used
        given = {name.removeprefix(start): self.tensors[name] for name in mine}
        check_state(module, entry, given, place)
        give_tensors(module, given, backbone=False)
        apart = {name: entry[name] for name in ("backbone", "frozen", "tied") if name in entry}
        _compare(words(module, place) | apart, entry, place)
        give_tensors(module, given, backbone=True)
        give_flags(module, entry["frozen"], entry["tied"])
        module.eval()


def _compare(built: Any, described: Any, place: str) -> None:
    """Refuses words that are not those of what was built from them."""
    if isinstance(built, dict) and isinstance(described, dict):
        for key in sorted(built.keys() | described.keys()):
            _compare(built.get(key), described.get(key), _join(place, key))
    elif isinstance(built, list) and isinstance(described, list) and len(built) == len(described):
        for i, (one, other) in enumerate(zip(built, described, strict=True)):
            _compare(one, other, f"{place}.{i}")
    elif built != described:
        refuse(_owner(place), f"{_argument(place)} as it was built, {built!r:.80}", f"{described!r:.80}")


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _argument(place: str) -> str:
    """The name at the end of a place."""
    return place.rpartition(".")[2]


def _owner(place: str) -> str:
    return place.rpartition(".")[0]


def _split(axis: str | int) -> tuple[str, int]:
    """The name of an axis, and what it has more."""
    name, _, more = str(axis).partition(" + ")
    return name, int(more or 0)


def _size(axis: str | int, known: Mapping[str, Any]) -> int | None:
    """The size that an axis must have, or −1 for any; None where there is no such tensor."""
    if isinstance(axis, int):
        return axis
    name, more = _split(axis)
    if "." in name:
        return int(getattr(known[name.partition(".")[0]], name.partition(".")[2]))
    size = known.get(name, -1 - more)
    return None if size is None else size + more
