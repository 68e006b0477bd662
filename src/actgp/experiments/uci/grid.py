"""Models × data sets × splits, side by side through joblib; what is done stays done.

A result is appended to a file of JSON lines, and forced onto the disk, when its cell has finished. Run again, a grid
does what is missing. An interrupt loses the cells that were under way. joblib's own settings decide where cells run:
inside `joblib.parallel_config(backend="dask")` a Dask cluster carries them.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from actgp.baselines import Settings
from actgp.datasets import load_regression
from actgp.experiments.uci.cells import NUM_SPLITS, TEST_FRACTION, Cell, run_cell
from actgp.experiments.uci.contestants import ABLATIONS, CONTESTANTS, takes

QUICK = Settings(network_steps=200, posterior_steps=50, exact_steps=20, members=2, samples=10)


class Store:
    """A file of JSON lines, one for each finished cell."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def records(self) -> list[dict[str, Any]]:
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

    def append(self, record: dict[str, Any]) -> None:
        """Adds a line, and waits until it is on the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            if file.tell() > 0:  # after a line that was cut off, begin a new one
                file.seek(-1, os.SEEK_END)
                file.write(b"" if file.read(1) == b"\n" else b"\n")
            file.write(json.dumps(record).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def grid_cells(data: Sequence[str], models: Sequence[str], num_splits: int, settings: Settings) -> list[Cell]:
    """All cells, by data set, then by split."""
    known = CONTESTANTS | ABLATIONS
    unknown = [name for name in models if name not in known]
    if unknown:
        raise ValueError(f"a model must be one of {', '.join(known)}, got {', '.join(unknown)}; choose among those")
    if not 1 <= num_splits <= NUM_SPLITS:
        raise ValueError(f"splits must be between 1 and {NUM_SPLITS}, got {num_splits}; choose fewer")
    found = []
    for name in data:
        rows = int((1 - TEST_FRACTION) * len(load_regression(name).y))
        found += [
            Cell(name, split, model) for split in range(num_splits) for model in models if takes(model, rows, settings)
        ]
    return found


def missing(wanted: Sequence[Cell], store: Store, settings: Settings) -> list[Cell]:
    """The cells that are not stored yet; refuses a file with results of other settings."""
    done = set()
    for record in store.records():
        if record["configuration"] != asdict(settings):
            raise ValueError(
                f"results in one file must have the same configuration, got another one in {store.path}; "
                "write to another file, or delete that one"
            )
        done.add(Cell(record["data"], record["split"], record["model"]))
    return [cell for cell in wanted if cell not in done]


def run_grid(wanted: Sequence[Cell], store: Store, settings: Settings, num_jobs: int) -> Iterator[dict[str, Any]]:
    """Runs cells side by side, and gives each result once it is stored."""
    parallel = Parallel(n_jobs=num_jobs, return_as="generator_unordered")
    for record in parallel(delayed(run_cell)(cell, settings) for cell in wanted):
        store.append(record)
        yield record
