"""What a thing is made of, in words and tensors, and the same thing built again from them.

A description is a dictionary: the name of a class, and what its `config()` gives (`registry`). Descriptions come from
files, and files from anywhere: every entry is checked against the annotations of the constructor before it is used, and
what was built must describe itself by the same words. Then it is given its tensors.
"""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from actgp.persistence import archive
from actgp.persistence.classes import (
    DescriptionError,
    Savable,
    allows,
    in_words,
    items,
    refuse,
    refuse_to_save,
    savable_as,
    savable_for,
    takes_tensor,
)
from actgp.persistence.gpytorch_parts import (
    active_dims_of,
    build_constraint,
    check_part,
    constraints_of,
    describe_constraint,
)
from actgp.persistence.state import check_state, describe_flags, give_flags, give_tensors, parts_of, tensors_of

DEEPEST = 18  # names in the place of a part; gpytorch takes twice as long for each kernel around another
LARGEST = {"num_levels": 1_000, "num_classes": 1_000_000}  # energies are computed anew, in minutes at this size
OWN = ("class", "constraints", "frozen", "tied")  # entries that are no arguments


class Description(NamedTuple):
    """A thing, in words and tensors."""

    document: dict[str, Any]
    tensors: dict[str, Tensor]


def save(thing: object, path: str | os.PathLike[str], kind: str = "model") -> None:
    """Writes a thing to a file of a kind, all of it at once, from which `actgp.load` builds it again."""
    archive.write(path, kind, *describe(thing))


def describe(thing: object) -> Description:
    """A thing in words and tensors, for files; refuses parts that are code."""
    tensors: dict[str, Tensor] = {}
    return Description(_Describing(tensors).part(thing, type(thing), ""), tensors)


def words(thing: object, place: str = "") -> dict[str, Any]:
    """What a thing is made of, without its state."""
    return _Describing(None).part(thing, type(thing), place)


def rebuild(
    document: dict[str, Any], tensors: Mapping[str, Tensor], backbone: nn.Module | None = None, hint: Any = object
) -> Any:
    """Builds what `describe` has described, which must be of a class that the annotation `hint` allows.

    A model's backbone, of which there are the tensors only, is the given module; it is given its tensors.
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
            refuse_to_save(place, savable_for(hint) or savable_for(type(thing).__mro__[1]), thing)
        if place.count(".") > DEEPEST:
            raise ValueError(f"to be saved, parts must be at most {DEEPEST} deep, got {place}; nest them less")
        config, is_module = dict(saved.config(thing)), isinstance(thing, nn.Module)
        if "active_dims" in saved.hints:
            config |= active_dims_of(thing)
        entry: dict[str, Any] = {"class": saved.cls.__name__}
        for key, value in config.items():
            entry[key] = self.value(value, saved.hints[_name(key)], _join(place, key), is_module)
        if is_module:
            check_part(thing, config, place)
            if own := constraints_of(thing, config):
                entry["constraints"] = {name: describe_constraint(c, _join(place, name)) for name, c in own.items()}
        if is_module and not inside and self.tensors is not None:
            entry |= describe_flags(thing)
            self.tensors.update({_join(place, name): tensor for name, tensor in tensors_of(thing).items()})
        return entry

    def value(self, value: Any, hint: Any, place: str, inside: bool) -> Any:
        name, item = _name(place), items(hint)
        if name == "backbone":
            return None if value is None else {"parts": parts_of(value)}
        if isinstance(value, Tensor):
            if self.tensors is not None:
                self.tensors[place] = value
            return {"tensor": place}
        if isinstance(value, list) and item is not None:
            return [self.value(each, item, f"{place}.{i}", inside) for i, each in enumerate(value)]
        if not isinstance(value, None | bool | int | float | str):
            return self.part(value, hint, place, inside)
        if isinstance(value, int) and value > LARGEST.get(name, value):
            raise ValueError(
                f"to be saved, {name} must be at most {LARGEST[name]}, got {value} at {_owner(place)}; lower it, or "
                "keep model.state_dict()"
            )
        if not allows(hint, value):
            raise TypeError(f"to be saved, {place} must be {in_words(hint)}, got {value!r}; keep model.state_dict()")
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
        name, known = entry.get("class"), savable_for(hint)
        if not isinstance(name, str) or name not in known:
            refuse(place, f"class one of {sorted(known)}", repr(name)[:80])
        arguments = self._arguments(known[name], entry, place)
        try:
            thing = known[name].build(**arguments)
            if isinstance(thing, nn.Module):
                for data in (value for value in arguments.values() if isinstance(value, Tensor)):
                    thing.to(data.dtype)  # data that are no parameters keep the precision that they had
                self._constrain(thing, entry, place)
        except DescriptionError:
            raise
        except (ValueError, TypeError, RuntimeError, IndexError, OverflowError) as error:
            raise DescriptionError(
                f"the description of {place or 'the model'} must be one that can be built, got one that cannot "
                f"({error}); write it with the model's save"
            ) from error
        if isinstance(thing, nn.Module) and not inside:
            self._restore(thing, entry, place)
        elif not place:
            _compare(describe(thing).document, entry, place)
        return thing

    def _arguments(self, saved: Savable, entry: dict[str, Any], place: str) -> dict[str, Any]:
        """Those in the words, and those that are seen from the tensors, all of which must fit together."""
        known: dict[str, Any] = {}
        for key, value in entry.items():
            if key not in OWN and _name(key) not in saved.hints:
                refuse(place, f"no entry {key[:80]}", repr(value)[:80])
            if key not in OWN:
                inside = issubclass(saved.cls, nn.Module)
                known[_name(key)] = self._value(value, saved.hints[_name(key)], _join(place, key), inside)
        for tensor, axes in saved.sizes.items():
            wanted = [_size(axis, known) for axis in axes]
            if None in wanted:
                continue
            found = self.tensors.get(_join(place, tensor))
            got = None if found is None else list(found.shape)
            if got is None or got != [n if w == "any" else w for w, n in zip_longest(wanted, got)]:
                refuse(place, f"a tensor {tensor} of shape {wanted}", "none" if got is None else str(got))
            for axis, size in zip(axes, got, strict=True):
                name, more = _split(axis)
                known.setdefault(name, size - more)
            known.setdefault(_name(tensor), torch.zeros(got))
        if missing := sorted(saved.required - known.keys()):
            refuse(place, f"an entry {missing[0]}", "none")
        return {name: value for name, value in known.items() if name in saved.hints}

    def _value(self, entry: Any, hint: Any, place: str, inside: bool) -> Any:
        name, item = _name(place), items(hint)
        if name == "backbone":
            return self.backbone
        if isinstance(entry, dict) and takes_tensor(hint):
            self.used.add(place)
            if place not in self.tensors:
                refuse(_owner(place), f"a tensor {name}", "none")
            return self.tensors[place]
        if isinstance(entry, dict) and savable_for(hint):
            return self.part(entry, hint, place, inside)
        if isinstance(entry, list) and item is not None:
            return [self._value(each, item, f"{place}.{i}", inside) for i, each in enumerate(entry)]
        if isinstance(entry, dict | list) or not allows(hint, entry):
            refuse(_owner(place), f"{name} {in_words(hint)}", repr(entry)[:80])
        if name in LARGEST and not 1 <= entry <= LARGEST[name]:
            refuse(_owner(place), f"{name} from 1 to {LARGEST[name]}", str(entry)[:80])
        return entry

    def _constrain(self, part: nn.Module, entry: dict[str, Any], place: str) -> None:
        """Gives a part the constraints that it had; their bounds come with the other tensors."""
        described, own = entry.get("constraints", {}), constraints_of(part, entry)
        if not isinstance(described, dict) or described.keys() != own.keys():
            refuse(place, f"constraints of {sorted(own)}", str(described)[:80])
        for name in own:
            owner: Any = part.get_submodule(_owner(name))
            constraint = build_constraint(described[name], self.tensors, _join(place, name))
            owner.register_constraint(_name(name).removesuffix("_constraint"), constraint)

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
        refuse(_owner(place), f"{_name(place)} as it was built, {built!r:.80}", f"{described!r:.80}")


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _name(place: str) -> str:
    """The name at the end of a place."""
    return place.rpartition(".")[2]


def _owner(place: str) -> str:
    return place.rpartition(".")[0]


def _split(axis: str | int) -> tuple[str, int]:
    """The name of an axis, and what it has more."""
    name, _, more = str(axis).partition(" + ")
    return name, int(more or 0)


def _size(axis: str | int, known: Mapping[str, Any]) -> int | str | None:
    """The size that an axis must have, or "any"; None where there is no such tensor."""
    name, more = _split(axis)
    if isinstance(axis, int) or (name not in known and "." not in name):
        return axis if isinstance(axis, int) else "any"
    part, _, attribute = name.partition(".")
    size = getattr(known.get(part), attribute, None) if attribute else known[part]
    return None if size is None else int(size) + more
