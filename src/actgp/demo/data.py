"""The demo's data: generated, but for diabetes, which comes with scikit-learn."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, make_friedman1
from torch import Tensor

WAVES_EXTENT = 1.5  # waves lie in |x| ≤ 1.5
NUM_WAVES = 50


class Data(NamedTuple):
    """Inputs, and targets or classes, which are 0 or 1."""

    X: Float[Tensor, "N D"]
    y: Shaped[Tensor, " N"]


def waves() -> Data:
    """One input, y = sin 3x + 0.3 x + noise; always the same points."""
    generator = torch.Generator().manual_seed(2)
    X = WAVES_EXTENT * (2 * torch.rand(NUM_WAVES, 1, dtype=torch.float64, generator=generator) - 1)
    noise = 0.1 * torch.randn(NUM_WAVES, dtype=torch.float64, generator=generator)
    return Data(X, torch.sin(3 * X[:, 0]) + 0.3 * X[:, 0] + noise)


def bananas(num_points: int, seed: int) -> Data:
    """Two crescents that overlap, like the paper's banana data and standardised about as they are."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, num_points)
    angle = random.uniform(0, np.pi, num_points)
    side = 2 * y - 1
    X = np.stack([1.2 * np.cos(angle) + 0.5 * side, side * (np.sin(angle) - 0.45)], axis=1)
    X += 0.33 * random.standard_normal(X.shape)
    return Data(torch.from_numpy(X), torch.from_numpy(y))


def tables() -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Inputs and targets of Friedman's function, and of diabetes."""
    return {
        "friedman": make_friedman1(500, n_features=8, noise=1.0, random_state=0),
        "diabetes": load_diabetes(return_X_y=True),
    }
