"""Networks of several inputs: a tuple or a dictionary of tensors that have a row each for every row.

Inside, models hold such inputs as `Inputs`, which has rows as a tensor has: its length, slices, parts, a device. A
network is given what the user gave, a tuple or a dictionary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Inputs:
    """Tensors with as many rows each.

    Attributes:
        tensors: The tensors, in order.
        names: Their names, for a dictionary; None for a tuple.
    """

    tensors: tuple[Tensor, ...]
    names: tuple[str, ...] | None

    @property
    def given(self) -> tuple[Tensor, ...] | dict[str, Tensor]:
        """What the user gave."""
        return self.tensors if self.names is None else dict(zip(self.names, self.tensors, strict=True))

    @property
    def device(self) -> torch.device:
        """Of the first."""
        return self.tensors[0].device

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, rows: slice | Tensor) -> "Inputs":
        return self._each(lambda values: values[rows])

    def split(self, size: int) -> "list[Inputs]":
        """Some rows at a time."""
        return [self[start : start + size] for start in range(0, len(self), size)]

    def to(self, *arguments: Any) -> "Inputs":
        """On a device."""
        return self._each(lambda values: values.to(*arguments))

    def detach(self) -> "Inputs":
        """Without gradients."""
        return self._each(Tensor.detach)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Inputs":
        return Inputs(tuple(map(change, self.tensors)), self.names)


Rows = Tensor | Inputs
GivenRows = Tensor | Inputs | Sequence[Tensor] | Mapping[str, Tensor]


def gathered(X: GivenRows, name: str = "X") -> Rows:
    """Tuples, lists and dictionaries of tensors as `Inputs`; anything else as it is."""
    if isinstance(X, Mapping):
        tensors, names = tuple(X.values()), tuple(X.keys())
    elif isinstance(X, tuple | list):
        tensors, names = tuple(X), None
    else:
        return X  # type: ignore[return-value]  # a tensor, or what is refused where tensors are checked
    if not tensors or not all(isinstance(values, Tensor) for values in tensors):
        kinds = sorted({type(values).__name__ for values in tensors})
        raise TypeError(
            f"{name} must be a tensor, or a tuple or dictionary of tensors, got a {type(X).__name__} of "
            f"{', '.join(kinds) or 'nothing'}; convert them with torch.as_tensor"
        )
    if names is not None and not all(isinstance(key, str) for key in names):
        raise TypeError(
            f"a dictionary of inputs must have names of the network's arguments as keys, got {list(names)!r}; name them"
        )
    rows = [len(values) if values.ndim > 0 else 0 for values in tensors]
    if len(set(rows)) > 1 or rows[0] == 0:
        raise ValueError(
            f"the inputs of a network must have as many rows each, at least one, got {rows}; align them by rows"
        )
    return Inputs(tensors, names)


def parts_of_inputs(X: Rows) -> tuple[Tensor, ...]:
    """The tensors, one or several."""
    return X.tensors if isinstance(X, Inputs) else (X,)


def joined(parts: Sequence[Rows]) -> Rows:
    """All rows of some parts, in order."""
    tensors = tuple(torch.cat(values) for values in zip(*map(parts_of_inputs, parts), strict=True))
    first = parts[0]
    return Inputs(tensors, first.names) if isinstance(first, Inputs) else tensors[0]


def call(network: Callable[..., Any], X: GivenRows) -> Any:
    """network(X), network(*X) for a tuple, network(**X) for a dictionary."""
    given = X.given if isinstance(X, Inputs) else X
    if isinstance(given, Mapping):
        return network(**given)
    return network(*given) if isinstance(given, tuple | list) else network(given)
