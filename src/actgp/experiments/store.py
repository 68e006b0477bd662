"""Results of a grid of cells, side by side through joblib; what is done stays done.

A result is appended to a file of JSON lines, and forced onto the disk, when its cell has finished. Run again, a grid
does what is missing. An interrupt loses the cells that were under way. joblib's own settings decide where cells run:
inside `joblib.parallel_config(backend="dask")` a Dask cluster carries them.
"""

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import gpytorch
import torch
from joblib import Parallel, delayed

from actgp.version import __version__

Record = dict[str, Any]
C = TypeVar("C")


class Store:
    """A file of JSON lines, one for each finished cell."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def records(self) -> list[Record]:
        """What is stored; a last line that was cut off does not count."""
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return found

    def records_of(self, configuration: Record) -> list[Record]:
        """What is stored; refuses a file with results of another configuration."""
        found = self.records()
        if any(record["configuration"] != configuration for record in found):
            raise ValueError(
                f"results in one file must have the same configuration, got another one in {self.path}; "
                "write to another file, or delete that one"
            )
        return found

    def append(self, record: Record) -> None:
        """Adds a line, and waits until it is on the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            if file.tell() > 0:  # after a line that was cut off, begin a new one
                file.seek(-1, os.SEEK_END)
                file.write(b"" if file.read(1) == b"\n" else b"\n")
            file.write(json.dumps(record).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def run_cells(work: Callable[[C], Record], cells: Sequence[C], store: Store, num_jobs: int) -> Iterator[Record]:
    """Runs cells side by side, and gives each result once it is stored."""
    parallel = Parallel(n_jobs=num_jobs, return_as="generator_unordered")
    for record in parallel(delayed(work)(cell) for cell in cells):
        store.append(record)
        yield record


def versions() -> dict[str, str]:
    """Of the software that a result depends on."""
    return {
        "actgp": __version__,
        "torch": torch.__version__,
        "gpytorch": gpytorch.__version__,
        "python": platform.python_version(),
    }
