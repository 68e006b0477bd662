"""Rows that stay on the disk: arrays in mapped files, and Arrow data sets such as Parquet files.

They are read in blocks, runs of rows that lie side by side.
"""

import sys
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

BLOCK = 8_192  # rows of an array that are read at a time


@runtime_checkable
class Table(Protocol):
    """Rows on the disk.

    Attributes:
        sizes: How many rows each block has.
        has_targets: Whether there is a y.
    """

    sizes: list[int]
    has_targets: bool

    def read(self, block: int) -> tuple[Any, Any]:
        """X and y of a block, as NumPy arrays; None where there is no y."""
        ...


class ArrayTable:
    """Arrays, of which at least X is a mapped file."""

    def __init__(self, X: Any, y: Any) -> None:
        if y is not None and len(y) != len(X):
            raise ValueError(f"y must have a row for each row of X, got {len(y)} for {len(X)} rows; pass another array")
        self.X, self.y, self.has_targets = X, y, y is not None
        self.sizes = [min(BLOCK, len(X) - start) for start in range(0, len(X), BLOCK)]

    def read(self, block: int) -> tuple[Any, Any]:
        rows = slice(block * BLOCK, (block + 1) * BLOCK)
        return np.array(self.X[rows]), None if self.y is None else np.array(self.y[rows])  # copies, not pages of files


class ArrowTable:
    """A `pyarrow.dataset.Dataset`, by row groups where its files have them; X is all columns but the targets."""

    def __init__(self, dataset: Any, y: str | Sequence[str] | None) -> None:
        self.targets = [y] if isinstance(y, str) else list(y or [])
        self.has_targets = len(self.targets) > 0
        names = list(dataset.schema.names)
        if not set(self.targets) < set(names):
            raise ValueError(
                f"y must name the columns of the data set that are targets, got {y!r}, where its columns are {names}; "
                "pass the name of one of them"
            )
        self.inputs = [name for name in names if name not in self.targets]
        parquet = sys.modules["pyarrow.dataset"].ParquetFileFragment
        self.groups: list[Any] = []
        self.sizes: list[int] = []
        for file in dataset.get_fragments():
            groups = file.split_by_row_group() if isinstance(file, parquet) else [file]
            self.groups += groups
            self.sizes += [g.row_groups[0].num_rows if isinstance(g, parquet) else g.count_rows() for g in groups]

    def read(self, block: int) -> tuple[Any, Any]:
        columns = self.groups[block].to_table(columns=[*self.inputs, *self.targets])
        X, *y = (
            np.stack([columns[name].to_numpy() for name in names], 1) for names in (self.inputs, self.targets) if names
        )
        return X, None if not y else y[0][:, 0] if len(self.targets) == 1 else y[0]


def table_of(X: Any, y: Any) -> Table | None:
    """The rows on the disk that have been given; None if X is something else."""
    if isinstance(X, np.memmap):
        return ArrayTable(X, y)
    arrow = sys.modules.get("pyarrow.dataset")  # imported by whoever has a data set
    return ArrowTable(X, y) if arrow is not None and isinstance(X, arrow.Dataset) else None
