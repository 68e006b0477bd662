"""A table as a matrix of numbers, by what was learnt of its columns on the rows of `fit`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from actgp.estimators.columns import Column, Matrix, NumberColumn, learn
from actgp.estimators.frames import Table
from actgp.persistence import savable


@savable
@dataclass(frozen=True)
class Encoding:
    """What was understood of a table; printed, it says so.

    Attributes:
        columns: Its columns, in order.
        named: Whether they have names.

    Example:
        >>> import actgp, pandas as pd
        >>> X = pd.DataFrame({"size": [30.0, None] * 20, "colour": ["red", "green", "blue", "red"] * 10})
        >>> recipe = actgp.Recipe(network_steps=5, num_steps=1)
        >>> regressor = actgp.DGPRegressor(num_inducing=5, recipe=recipe).fit(X, range(40))
        >>> regressor.columns_["colour"].categories
        ['blue', 'green', 'red']
    """

    columns: Sequence[Column]
    named: bool

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        wanted = str if self.named else int
        if not names or len(set(names)) < len(names) or not all(type(name) is wanted for name in names):
            raise ValueError(f"columns must have different names, all of type {wanted.__name__}, got {names!r:.80}")

    @classmethod
    def learn(cls, table: Table) -> "Encoding":
        """From the rows of `fit`."""
        names = range(len(table.columns)) if table.names is None else table.names
        return cls(list(map(learn, table.columns, names)), table.names is not None)

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, key: str | int) -> Column:
        """A column, by its name or position."""
        return self.columns[self.names.index(key) if isinstance(key, str) else key]

    @property
    def names(self) -> list[str | int]:
        """Of the columns."""
        return [column.name for column in self.columns]

    @property
    def outputs(self) -> list[str]:
        """What the columns of the matrix are called."""
        return [output for column in self.columns for output in column.outputs] or ["nothing"]

    @property
    def are_numbers(self) -> bool:
        """Whether the matrix is the table itself: numbers and booleans, none of which were missing."""
        return all(column.outputs == [str(column.name)] and column.kind in ("number", "boolean") for column in self)

    @property
    def flags(self) -> list[bool]:
        """Which columns of the matrix are zeros and ones that stand for categories or for missing values."""
        kinds = [
            column.kind == "text" or (i > 0 and isinstance(column, NumberColumn)) or output.endswith("is missing")
            for column in self.columns
            for i, output in enumerate(column.outputs)
        ]
        return kinds or [True]

    def encode(self, table: Table) -> Matrix:
        """The matrix, [N, outputs], of a table that has these columns, in this order."""
        parts = [column.encode(values) for column, values in zip(self.columns, table.columns, strict=True)]
        matrix = np.concatenate(parts, axis=1)
        return matrix if matrix.shape[1] > 0 else np.zeros((table.num_rows, 1))

    def select(self, table: Table) -> Table:
        """These columns of a table with names, wherever they stand in it."""
        assert table.names is not None
        places = {name: i for i, name in enumerate(table.names)}
        for name in self.names:
            if name not in places:
                spare = [other for other in table.names if other not in self.names]
                close = get_close_matches(str(name), spare, n=1)
                remedy = f"rename {close[0]!r}, if that is it" if close else "add it; missing values will do"
                raise ValueError(
                    f"X must have the column {name!r} that there was in fit, got {spare} besides; {remedy}"
                )
        return Table([table.columns[places[str(name)]] for name in self.names], self.names, table.names)

    def __str__(self) -> str:
        width = max(len(str(name)) for name in [*self.names, "column"])
        lines = [f"{'column':<{width}}  {'kind':<8}  {'missing':>7}  {'numbers':>7}  "]
        for column in self.columns:
            note = f"dropped: {column.note}" if column.dropped else column.note
            numbers = len(column.outputs)
            lines.append(f"{column.name:<{width}}  {column.kind:<8}  {column.missing:>7}  {numbers:>7}  {note}")
        return "\n".join(line.rstrip() for line in lines)
