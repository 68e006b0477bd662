"""A table, and how estimators are fitted to part of it in a moment."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import actgp

TRAIN, CALIBRATION, TEST = slice(0, 120), slice(120, 200), slice(200, 240)
RECIPE = actgp.Recipe(network_steps=200, num_steps=20)
QUICK: dict[str, Any] = {"num_layers": 2, "num_inducing": 16, "recipe": RECIPE, "num_samples": 8, "random_state": 0}


class Table(NamedTuple):
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    labels: NDArray[np.int64]


def draw_table() -> Table:
    """Targets that know nothing of the last column, with more noise on one side of the second."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, size=(240, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + np.where(X[:, 1] > 0, 0.25, 0.05) * random.normal(size=240)
    return Table(X, y, (y > 0).astype(int))
