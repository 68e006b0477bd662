"""Estimators that train in a moment."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import actgp

QUICK = actgp.Recipe(network_steps=30, num_steps=3, network_rate=0.1)
SMALL: dict[str, Any] = {"num_layers": 2, "num_inducing": 12, "recipe": QUICK, "num_samples": 8, "random_state": 0}

Data = tuple[NDArray[np.float64], NDArray[np.float64]]


def regressor(**parameters: object) -> actgp.DGPRegressor:
    return actgp.DGPRegressor(**(SMALL | parameters))


def classifier(**parameters: object) -> actgp.DGPClassifier:
    return actgp.DGPClassifier(**(SMALL | parameters))
