"""Small models, trained once."""

import pytest
from small_problem import rows, values
from torch import Tensor

from actgp.botorch import DeepGPModel


@pytest.fixture(scope="module")
def X() -> Tensor:
    return rows(18, 2, seed=0)


@pytest.fixture(scope="module")
def points() -> Tensor:
    return rows(6, 2, seed=1).reshape(2, 3, 2)


@pytest.fixture(scope="module")
def model(X: Tensor) -> DeepGPModel:
    return DeepGPModel(X, values(X)[:, :1], num_paths=4, num_functions=32).fit()


@pytest.fixture(scope="module")
def two(X: Tensor) -> DeepGPModel:
    return DeepGPModel(X, 5 + 3 * values(X), num_paths=4, num_functions=32).fit()
