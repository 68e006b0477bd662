"""The paper's banana figure: 100 units, one and three layers, the network against its deep GP."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from actgp.datasets import load_banana
from actgp.experiments.store import Store
from actgp.experiments.two_classes import Labelled, Score, Study
from actgp.persistence import archive
from actgp.training import Recipe

EXPERIMENT = "banana"
NUM_INDUCING = 100
DEPTHS = (1, 3)
RECIPE = Recipe(network_steps=2_000, num_steps=1_000, objective="elbo")
QUICK = Recipe(network_steps=200, num_steps=50, objective="elbo")


def study(quick: bool, seed: int = 0) -> Study:
    """400 points to train on, 4,900 to judge by, standardised on the former."""
    data = load_banana()
    mean, sd = data.X_train.mean(0), data.X_train.std(0)

    def labelled(X: NDArray[np.float64], y: NDArray[np.int64]) -> Labelled:
        return Labelled(torch.from_numpy((X - mean) / sd), torch.from_numpy(y))

    train, test = labelled(data.X_train, data.y_train), labelled(data.X_test, data.y_test)
    return Study(train, test, DEPTHS, NUM_INDUCING, QUICK if quick else RECIPE, seed=seed)


def check_results(path: Path) -> None:
    """Refuses a file that scores cannot be written to, or that holds results of another experiment."""
    store = Store(path)
    if any(record.get("experiment") != EXPERIMENT for record in store.records()):
        raise ValueError(
            f"results of {EXPERIMENT} must have a file of their own, got {str(path)!r} with others; choose another file"
        )
    store.claim()


def write_scores(path: Path, scores: Sequence[Score], seed: int) -> Path:
    """Stores scores as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "experiment": EXPERIMENT,
            "model": score.model,
            "layers": score.depth,
            "seed": seed,
            "metrics": {
                "accuracy": score.accuracy,
                "log_likelihood": score.log_likelihood,
                "entropy_far": score.entropy_far,
                "probability_far": score.doubt_far,
            },
        }
        for score in scores
    ]
    archive.write_bytes(path, "".join(json.dumps(line) + "\n" for line in lines).encode())
    return path
