"""One cell of the grid: a network, and one contestant around it."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from actgp_experiments.bring.contestants import CONTESTANTS, Bench
from actgp_experiments.bring.networks import Networks, hold_out
from actgp_experiments.bring.settings import BringSettings
from actgp_experiments.datasets import load_regression, standardised
from actgp_experiments.metrics import scores
from actgp_experiments.store import Record, revision, versions


@dataclass(frozen=True)
class Cell:
    """A data set, a network (its seed is the number of the split, too), a contestant."""

    data: str
    activation: str
    layers: int
    seed: int
    model: str


def run_cell(cell: Cell, settings: BringSettings, folder: Path) -> Record:
    """Puts the contestant around the cell's network, which is trained if it is not in the folder yet, and judges it."""
    torch.set_num_threads(1)  # cells run side by side, and sums of one thread have one order
    part = standardised(load_regression(cell.data), cell.seed)
    rows = hold_out(part.X_train, part.y_train, settings.validation, cell.seed)
    bench = Bench(Networks(cell.data, cell.activation, cell.layers, rows, settings, folder), cell.seed)
    bench.networks.trained(cell.seed)  # before the clock starts
    start = time.process_time()
    with bench.drawn(cell.seed):
        predict = CONTESTANTS[cell.model](bench)
    fitted = time.process_time()
    with torch.no_grad():
        found = scores(predict(part.X_test), part.y_test, part.scale)
    return {
        "experiment": "bring",
        **asdict(cell),
        "metrics": found.metrics,
        "pit": found.pit,
        "seconds": {
            "train": round(bench.training, 3),
            "post_hoc": round(fitted - start - bench.spent, 3),
            "predict": round(time.process_time() - fitted, 3),
        },
        "rows": {"train": len(rows.X_train), "validation": len(rows.X_validation), "test": len(part.X_test)},
        "configuration": asdict(settings),
        "revision": revision(),
        "versions": versions(),
    }
