"""Where a part of a model is built from: its description and the tensors under its name.

Descriptions come from files, and files from anywhere. Every entry is checked before it is used, and sizes are read off
the tensors, so that nothing is allocated which the file does not hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from torch import Tensor

T = TypeVar("T")

LARGEST_LEVELS = 1_000  # their energies are computed anew, in minutes at this size


class DescriptionError(ValueError):
    """A description from which nothing can be built."""


@dataclass(frozen=True)
class Source:
    """The description of one part.

    Attributes:
        entries: What was described.
        tensors: All tensors of the model.
        prefix: What the names of this part's tensors start with.
    """

    entries: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    prefix: str = ""

    def get(self, key: str, kind: type[T]) -> T:
        """The entry of a key, if it is of exactly this type."""
        value = self.entries.get(key)
        if type(value) is not kind:
            self.refuse(f"{key} of type {kind.__name__}", repr(value)[:80])
        return value

    def choose(self, key: str, options: Mapping[str, T]) -> T:
        """What `options` has for the name in an entry."""
        name = self.get(key, str)
        if name not in options:
            self.refuse(f"{key} one of {sorted(options)}", repr(name)[:80])
        return options[name]

    def levels(self) -> int:
        """The entry `num_levels`."""
        levels = self.get("num_levels", int)
        if not 1 <= levels <= LARGEST_LEVELS:
            self.refuse(f"num_levels from 1 to {LARGEST_LEVELS}", str(levels)[:80])
        return levels

    def part(self, key: str, name: str) -> "Source":
        """The description under a key, of the submodule of a name."""
        return Source(self.get(key, dict), self.tensors, f"{self.prefix}{name}.")

    def parts(self, key: str, name: str) -> list["Source"]:
        """The list of descriptions under a key, of the submodules `name`.0, `name`.1, …"""
        listed = self.get(key, list)
        if not all(isinstance(entry, dict) for entry in listed):
            self.refuse(f"a list of descriptions as {key}", repr(listed)[:80])
        return [Source(entry, self.tensors, f"{self.prefix}{name}.{i}.") for i, entry in enumerate(listed)]

    def tensor(self, name: str, *shape: int | None) -> Tensor:
        """A tensor of this part, if it has the shape; None stands for any size."""
        found = self.tensors.get(self.prefix + name)
        wanted = ["any" if size is None else size for size in shape]
        if found is None:
            self.refuse(f"a tensor {name} of shape {wanted}", "none")
        if found.ndim != len(shape) or any(s not in (None, t) for s, t in zip(shape, found.shape, strict=True)):
            self.refuse(f"a tensor {name} of shape {wanted}", str(list(found.shape)))
        return found

    def refuse(self, expected: str, got: str) -> NoReturn:
        """Raises the error that says what the description lacks."""
        place = self.prefix.rstrip(".") or "the model"
        raise DescriptionError(
            f"the description of {place} must have {expected}, got {got}; write it with the model's save"
        )


def describe_levels(num_levels: int, place: str) -> int:
    """Returns a number of levels that `Source.levels` will accept."""
    if num_levels > LARGEST_LEVELS:
        raise ValueError(
            f"to be saved, num_levels must be at most {LARGEST_LEVELS}, got {num_levels} at {place}; lower it, or keep "
            "model.state_dict()"
        )
    return num_levels


def refuse_to_save(what: str, options: list[str], got: object, place: str) -> NoReturn:
    """Raises the error for what a file cannot hold."""
    raise TypeError(
        f"to be saved, {what} must be one of {options}, got {type(got).__name__} at {place}, whose code no file holds; "
        "keep model.state_dict(), and load it into the model built anew by your own code"
    )
