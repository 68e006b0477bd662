"""Random splits into points to learn from and points to test on."""

from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import ShuffleSplit

from actgp import checks
from actgp_experiments.datasets.fingerprint import order
from actgp_experiments.datasets.regression import Regression


class Split(NamedTuple):
    """Indices of rows.

    Attributes:
        train: Rows to learn from.
        test: The other rows.
    """

    train: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]


def splits(dataset: Regression, num_splits: int = 5, test_fraction: float = 0.1, seed: int = 0) -> list[Split]:
    """Independent random splits of a set: the same points each time, whatever the order of the set's rows.

    Args:
        dataset: The set.
        num_splits: How many; more of them begin with the same ones.
        test_fraction: Part of the points to test on, rounded up to a whole point.
        seed: Of scikit-learn's ShuffleSplit.
    """
    num_splits = checks.integer(num_splits, "num_splits", minimum=1)
    seed = checks.integer(seed, "seed", minimum=0)
    num_rows = len(dataset.y)
    num_test = ceil(num_rows * checks.positive(test_fraction, "test_fraction"))
    if num_test >= num_rows:
        raise ValueError(
            f"test_fraction must leave points to learn from, got {test_fraction} of {num_rows}, which is {num_test}; "
            "pass e.g. 0.1"
        )
    shuffle = ShuffleSplit(num_splits, test_size=num_test, random_state=seed)
    ranked = order(np.column_stack([dataset.X, dataset.y]))  # [N]
    return [Split(ranked[train], ranked[test]) for train, test in shuffle.split(ranked)]
