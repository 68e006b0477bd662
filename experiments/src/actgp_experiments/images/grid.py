"""Contestants × sets of images × seeds: which cells there are, and which are still to be run."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from actgp_experiments.images.cells import SHIFTS_OF, Cell, run_cells_of
from actgp_experiments.images.contestants import CONTESTANTS, ENSEMBLES
from actgp_experiments.images.settings import ImageSettings
from actgp_experiments.store import Record, Store, run_groups

NUM_SEEDS = 5
MODELS = (*CONTESTANTS, *ENSEMBLES)


def grid_cells(data: Sequence[str], models: Sequence[str], num_seeds: int) -> list[Cell]:
    """All cells, by data, then by model; an ensemble is one of all seeds."""
    for what, names, known in (("a model", models, MODELS), ("a data set", data, SHIFTS_OF)):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"{what} must be one of {', '.join(known)}, got {', '.join(unknown)}; choose among those")
    ordered = [name for name in MODELS if name in models]
    return [
        Cell(name, seed, model)
        for name in dict.fromkeys(data)
        for model in ordered
        for seed in range(1 if model in ENSEMBLES else num_seeds)
    ]


def missing(wanted: Sequence[Cell], store: Store, settings: ImageSettings) -> list[Cell]:
    """The cells that are not stored yet; refuses a file with results of other settings."""
    done = {Cell(record["data"], record["seed"], record["model"]) for record in store.records_of(asdict(settings))}
    return [cell for cell in wanted if cell not in done]


def run_grid(
    wanted: Sequence[Cell], store: Store, settings: ImageSettings, folder: Path, jobs: int | str
) -> Iterator[Record]:
    """Runs networks side by side, and gives the results of all contestants around one once they are stored.

    Args:
        wanted: What to run.
        store: Where results go.
        settings: The protocol.
        folder: Where trained networks are kept.
        jobs: How many networks at a time, or the address of a Dask scheduler.
    """
    # Contestants around one network belong together; ensembles, of which each has many networks, come by themselves.
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in wanted:
        groups.setdefault((cell.data, -1 if cell.model in ENSEMBLES else cell.seed), []).append(cell)
    return run_groups(partial(run_cells_of, settings=settings, folder=folder), list(groups.values()), store, jobs)
