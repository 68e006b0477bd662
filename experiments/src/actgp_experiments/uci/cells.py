"""One cell of the grid: a contestant on a split of a data set, standardised on the training part."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from actgp_experiments.baselines import Settings
from actgp_experiments.datasets import (
    MOST_SPLITS,
    NUM_SPLITS,
    TEST_FRACTION,
    Standardised,
    load_regression,
    standardised,
)
from actgp_experiments.metrics import scores
from actgp_experiments.store import revision, versions
from actgp_experiments.uci.contestants import builder

__all__ = ["MOST_SPLITS", "NUM_SPLITS", "TEST_FRACTION", "Cell", "copied", "run_cell", "standardised"]


@dataclass(frozen=True)
class Cell:
    """A contestant, a data set, a split."""

    data: str
    split: int
    model: str


def copied(part: Standardised) -> Bool[Tensor, " N"]:
    """Which rows of the test part, with their targets, are among those of the training part: to be remembered."""
    known = {row.tobytes() for row in _with_targets(part.X_train, part.y_train)}
    return torch.tensor([row.tobytes() in known for row in _with_targets(part.X_test, part.y_test)])


def _with_targets(X: Tensor, y: Tensor) -> NDArray[np.float32]:
    return torch.cat([X, y.unsqueeze(-1)], dim=1).numpy()


def run_cell(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Trains and judges; the same cell with the same settings gives the same numbers on the same machine."""
    torch.set_num_threads(1)  # cells run side by side, and sums of one thread have one order
    dataset = load_regression(cell.data)
    part = standardised(dataset, cell.split)
    model = builder(cell.model)(settings, cell.split)
    start = time.process_time()  # of the one thread: what runs beside it does not count
    model.fit(part.X_train, part.y_train)
    trained = time.process_time()
    predictive = model.predict(part.X_test)
    y = part.y_test.to(predictive.mean)
    found = scores(predictive, y, part.scale)
    predicted = time.process_time()
    nlpd, remembered = -predictive.log_prob(y), copied(part)
    return {
        "experiment": "uci",
        **asdict(cell),
        "seed": cell.split,
        "metrics": found.metrics,
        "pit": found.pit,
        "copies": {
            "rows": int(remembered.sum()),
            "nlpd": nlpd[remembered].mean().item() if remembered.any() else None,
            "nlpd_others": nlpd[~remembered].mean().item() if not remembered.all() else None,
        },
        "seconds": {"train": round(trained - start, 3), "predict": round(predicted - trained, 3)},
        "rows": {"train": len(part.X_train), "test": len(part.X_test)},
        "inputs": dataset.X.shape[1],
        "configuration": asdict(settings),
        "revision": revision(),
        "versions": versions(),
    }
