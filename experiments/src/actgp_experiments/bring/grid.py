"""Data sets × activations × depths × seeds × contestants: which cells there are, and which are still to be run."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import partial
from itertools import product
from pathlib import Path

from actgp_experiments.bring.cells import Cell, run_cell
from actgp_experiments.bring.contestants import CONTESTANTS, ONE_SEED
from actgp_experiments.bring.networks import ACTIVATIONS
from actgp_experiments.bring.settings import BringSettings
from actgp_experiments.store import Record, Store, missing_cells, run_cells

DEPTHS = (2, 3)
NUM_SEEDS = 3


def grid_cells(data: Sequence[str], models: Sequence[str], num_seeds: int) -> list[Cell]:
    """All cells, seed by seed, so that what there is after a while is of all data sets."""
    unknown = [name for name in models if name not in CONTESTANTS]
    if unknown:
        known = ", ".join(CONTESTANTS)
        raise ValueError(f"a contestant must be one of {known}, got {', '.join(unknown)}; choose among those")
    every = product(range(num_seeds), dict.fromkeys(data), ACTIVATIONS, DEPTHS, dict.fromkeys(models))
    return [
        Cell(name, activation, layers, seed, model)
        for seed, name, activation, layers, model in every
        if seed == 0 or model not in ONE_SEED
    ]


def cell_of(record: Record) -> Cell:
    """What a record is of."""
    return Cell(**{field.name: record[field.name] for field in fields(Cell)})


def latest(records: Sequence[Record]) -> dict[Cell, Record]:
    """Of each cell the record that was written last."""
    return {cell_of(record): record for record in records}


def missing(wanted: Sequence[Cell], store: Store, settings: BringSettings, *, again: bool = False) -> list[Cell]:
    """The cells that are not stored yet; refuses a file with results of other settings.

    Args:
        wanted: Those to be there.
        store: Where they are.
        settings: Which they have to be of.
        again: Whether results of other revisions of the code do not count.
    """
    return missing_cells(wanted, latest(store.records_of(asdict(settings))), again=again)


def run_grid(wanted: Sequence[Cell], store: Store, settings: BringSettings, jobs: int | str) -> Iterator[Record]:
    """Runs cells side by side, and gives each result once it is stored; trained networks are kept beside the file."""
    folder: Path = store.path.with_name(f"{store.path.stem}_networks")
    return run_cells(partial(run_cell, settings=settings, folder=folder), wanted, store, jobs)
