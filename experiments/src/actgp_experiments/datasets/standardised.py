"""The splits that all experiments on regression sets share, standardised on their training part."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actgp_experiments.datasets.regression import Regression
from actgp_experiments.datasets.splitting import splits

NUM_SPLITS, MOST_SPLITS = 5, 20  # of our tables, and of published ones
TEST_FRACTION = 0.1


@dataclass(frozen=True)
class Standardised:
    """A split, with inputs and targets of zero mean and unit variance on its training part.

    Attributes:
        scale: What a unit of y is in the data's own units.
    """

    X_train: Tensor
    y_train: Tensor
    X_test: Tensor
    y_test: Tensor
    scale: float


def standardised(dataset: Regression, split: int) -> Standardised:
    """Split number `split` of `MOST_SPLITS`, always the same."""
    train, test = splits(dataset, num_splits=MOST_SPLITS, test_fraction=TEST_FRACTION)[split]

    def scaled(values: NDArray[np.float64]) -> tuple[Tensor, Tensor, NDArray[np.float64]]:
        mean, sd = values[train].mean(0), values[train].std(0)
        sd = np.where(sd > 0, sd, 1.0)
        whole = torch.from_numpy((values - mean) / sd).float()
        return whole[torch.from_numpy(train)], whole[torch.from_numpy(test)], sd

    X_train, X_test, _ = scaled(dataset.X)
    y_train, y_test, sd = scaled(dataset.y)
    return Standardised(X_train, y_train, X_test, y_test, float(sd))
