"""Contestants × sets of images × seeds: which cells there are, and which are still to be run."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from actgp_experiments.images.cells import SHIFTS_OF, Cell, run_cell
from actgp_experiments.images.contestants import CONTESTANTS
from actgp_experiments.images.settings import ImageSettings
from actgp_experiments.store import Record, Store, run_cells

NUM_SEEDS = 3


def grid_cells(data: Sequence[str], models: Sequence[str], num_seeds: int) -> list[Cell]:
    """All cells, by data, then by model: those that share a network come when it is there."""
    for what, names, known in (("a model", models, CONTESTANTS), ("a data set", data, SHIFTS_OF)):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"{what} must be one of {', '.join(known)}, got {', '.join(unknown)}; choose among those")
    ordered = [name for name in CONTESTANTS if name in models]
    return [Cell(name, seed, model) for name in dict.fromkeys(data) for model in ordered for seed in range(num_seeds)]


def missing(wanted: Sequence[Cell], store: Store, settings: ImageSettings) -> list[Cell]:
    """The cells that are not stored yet; refuses a file with results of other settings."""
    done = {Cell(record["data"], record["seed"], record["model"]) for record in store.records_of(asdict(settings))}
    return [cell for cell in wanted if cell not in done]


def run_grid(wanted: Sequence[Cell], store: Store, settings: ImageSettings, jobs: int | str) -> Iterator[Record]:
    """Runs cells side by side, and gives each result once it is stored; trained networks are kept beside the file."""
    folder: Path = store.path.with_name(f"{store.path.stem}_networks")
    return run_cells(partial(run_cell, settings=settings, folder=folder), wanted, store, jobs)
