"""Models × data sets × splits: which cells there are, and which are still to be run."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial

from actgp_experiments.baselines import Settings
from actgp_experiments.datasets import load_regression
from actgp_experiments.store import Record, Store, is_stale, missing_cells, run_cells
from actgp_experiments.uci.cells import MOST_SPLITS, TEST_FRACTION, Cell, run_cell
from actgp_experiments.uci.contestants import ABLATIONS, CONTESTANTS, takes

QUICK = Settings(network_steps=200, posterior_steps=50, exact_steps=20, members=2, samples=10)


def grid_cells(data: Sequence[str], models: Sequence[str], num_splits: int, settings: Settings) -> list[Cell]:
    """All cells, by data set, then by split."""
    known = CONTESTANTS | ABLATIONS
    unknown = [name for name in models if name not in known]
    if unknown:
        raise ValueError(f"a model must be one of {', '.join(known)}, got {', '.join(unknown)}; choose among those")
    if not 1 <= num_splits <= MOST_SPLITS:
        raise ValueError(f"splits must be between 1 and {MOST_SPLITS}, got {num_splits}; choose fewer")
    found, models = [], list(dict.fromkeys(models))  # each once
    for name in dict.fromkeys(data):
        rows = int((1 - TEST_FRACTION) * len(load_regression(name).y))
        found += [
            Cell(name, split, model) for split in range(num_splits) for model in models if takes(model, rows, settings)
        ]
    return found


def stored_cells(store: Store, settings: Settings) -> dict[Cell, Record]:
    """Of each cell the record that was written last; refuses a file with results of other settings."""
    records = store.records_of(asdict(settings))
    return {Cell(record["data"], record["split"], record["model"]): record for record in records}


def missing(wanted: Sequence[Cell], store: Store, settings: Settings, *, again: bool = False) -> list[Cell]:
    """The cells that are not stored yet, or, if they are to be run again, are stored by another revision."""
    return missing_cells(wanted, stored_cells(store, settings), again=again)


def stale(wanted: Sequence[Cell], store: Store, settings: Settings) -> list[str]:
    """The models of cells that another revision of the code has stored."""
    stored = stored_cells(store, settings)
    return list(dict.fromkeys(cell.model for cell in wanted if cell in stored and is_stale(stored[cell])))


def run_grid(wanted: Sequence[Cell], store: Store, settings: Settings, jobs: int | str) -> Iterator[Record]:
    """Runs cells side by side, and gives each result once it is stored."""
    return run_cells(partial(run_cell, settings=settings), wanted, store, jobs)
