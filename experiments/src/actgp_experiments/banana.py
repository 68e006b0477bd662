"""The paper's banana figure: 100 units, one and three layers, the network against its deep GP."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from actgp.demo.classification import Score, compare
from actgp.demo.data import Data
from actgp.persistence import archive
from actgp.training import Recipe
from actgp_experiments.datasets import load_banana
from actgp_experiments.store import Store

EXPERIMENT = "banana"
NUM_INDUCING = 100
RECIPE = Recipe(network_steps=2_000, num_steps=1_000, objective="elbo")
QUICK = Recipe(network_steps=200, num_steps=50, objective="elbo")
FAR = 100.0  # standard deviations
DIRECTIONS = 72


class Far(NamedTuple):
    """What a model says a hundred standard deviations from the data, all around.

    Attributes:
        entropy: The mean entropy, in bits.
        doubt: The mean of |p − ½|: zero for a model that knows that it does not know.
    """

    entropy: float
    doubt: float


def data() -> tuple[Data, Data]:
    """400 points to train on, 4,900 to judge by, standardised on the former."""
    loaded = load_banana()
    mean, sd = loaded.X_train.mean(0), loaded.X_train.std(0)

    def standardised(X: NDArray[np.float64], y: NDArray[np.int64]) -> Data:
        return Data(torch.from_numpy((X - mean) / sd), torch.from_numpy(y))

    return standardised(loaded.X_train, loaded.y_train), standardised(loaded.X_test, loaded.y_test)


def scores(train: Data, test: Data, quick: bool) -> Iterator[Score]:
    """Trains models of one and three layers, and judges each as a network and as a deep GP."""
    return compare(train, test, NUM_INDUCING, QUICK if quick else RECIPE)


def far_away(score: Score) -> Far:
    """Of p(y = 1) in every direction."""
    angles = torch.arange(DIRECTIONS, dtype=torch.float64) * (2 * torch.pi / DIRECTIONS)
    p = score.probability(FAR * torch.stack([angles.cos(), angles.sin()], dim=-1))
    clipped = p.clamp(1e-12, 1 - 1e-12)
    entropy = -(clipped * clipped.log2() + (1 - clipped) * (1 - clipped).log2())
    return Far(entropy.mean().item(), (p - 0.5).abs().mean().item())


def check_results(path: Path) -> None:
    """Refuses a file that scores cannot be written to, or that holds results of another experiment."""
    store = Store(path)
    if any(record.get("experiment") != EXPERIMENT for record in store.records()):
        raise ValueError(
            f"results of {EXPERIMENT} must have a file of their own, got {str(path)!r} with others; choose another file"
        )
    store.claim()


def write_scores(path: Path, scores: Sequence[tuple[Score, Far]]) -> Path:
    """Stores scores as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "experiment": EXPERIMENT,
            "model": score.model,
            "layers": score.depth,
            "seed": 0,
            "metrics": {
                "accuracy": score.accuracy,
                "log_likelihood": score.log_likelihood,
                "entropy_far": far.entropy,
                "probability_far": far.doubt,
            },
        }
        for score, far in scores
    ]
    archive.write_bytes(path, "".join(json.dumps(line) + "\n" for line in lines).encode())
    return path
