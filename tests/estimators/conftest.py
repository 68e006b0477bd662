"""Small fitted estimators, shared by tests that leave them as they are."""

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from small_estimators import Data, classifier, regressor

import actgp


@pytest.fixture(scope="session")
def table() -> Data:
    """Two columns of very different units, and targets far from zero."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2)) * [1.0, 1e4] + [0.0, 1e5]
    return X, 500.0 + 40.0 * np.sin(X[:, 0]) + random.normal(size=60)


@pytest.fixture(scope="session")
def words(table: Data) -> NDArray[np.str_]:
    return np.array(["low", "medium", "high"])[np.digitize(table[0][:, 0], [-0.5, 0.5])]


@pytest.fixture(scope="session")
def one_target(table: Data) -> actgp.DGPRegressor:
    X, y = table
    return regressor(layers=actgp.Layers()).fit(X, y)


@pytest.fixture(scope="session")
def two_targets(table: Data) -> actgp.DGPRegressor:
    X, y = table
    return regressor().fit(pd.DataFrame(X, columns=["first", "second"]), np.stack([y, -1e-3 * y], axis=1))


@pytest.fixture(scope="session")
def two_classes(table: Data) -> actgp.DGPClassifier:
    X, y = table
    return classifier().fit(X, (y > 500).astype(int) + 3)


@pytest.fixture(scope="session")
def three_classes(table: Data, words: NDArray[np.str_]) -> actgp.DGPClassifier:
    return classifier().fit(table[0], words)
