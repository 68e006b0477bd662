"""Regression on generated and bundled data: a network, and the deep GP that it becomes.

Data are standardised on the training part, scores taken on the held-out part in standardised units. The network is the
deep GP's own, as it was at the end of the first stage; its variance is its training error, as in the paper's NN
baseline.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.distributions import Normal

from actgp.models import deep_gp
from actgp.training import Recipe, fit

NUM_INDUCING = 64
RECIPE = Recipe(network_steps=1_000, num_steps=300)
SEED = 0


class Score(NamedTuple):
    """How a model does on held-out data, in standardised units."""

    data: str
    model: str
    rmse: float
    nlpd: float
    coverage: float


class Split(NamedTuple):
    """Standardised training and test parts."""

    X: Tensor
    y: Tensor
    X_test: Tensor
    y_test: Tensor


def data_sets() -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Friedman's function, which is generated, and diabetes, which comes with scikit-learn."""
    return {
        "friedman": make_friedman1(500, n_features=8, noise=1.0, random_state=SEED),
        "diabetes": load_diabetes(return_X_y=True),
    }


def split(X: NDArray[np.float64], y: NDArray[np.float64]) -> Split:
    """Four fifths to train on, standardised."""
    parts = train_test_split(X, y.reshape(-1, 1), test_size=0.2, random_state=SEED)
    X, X_test, y, y_test = parts
    inputs, outputs = StandardScaler().fit(X), StandardScaler().fit(y)
    scaled = (
        inputs.transform(X),
        outputs.transform(y)[:, 0],
        inputs.transform(X_test),
        outputs.transform(y_test)[:, 0],
    )
    return Split(*(torch.from_numpy(values).float() for values in scaled))


def scores() -> Iterator[Score]:
    """Trains a model on every data set, one at a time, and judges it as a network and as a deep GP."""
    for data, (X, y) in data_sets().items():
        parts = split(X, y)
        generator = torch.Generator().manual_seed(SEED)
        model = deep_gp(X.shape[1], num_inducing=NUM_INDUCING, kernel="matched", generator=generator)
        network = fit(model, parts.X, parts.y, RECIPE, generator=generator).network
        assert network is not None
        with torch.no_grad():
            error = (network(parts.X) - parts.y).square().mean()
            normal = Normal(network(parts.X_test), error.sqrt())
        half = 1.959964 * normal.stddev
        ends = (normal.mean - half, normal.mean + half)
        yield _score(data, "network", parts.y_test, normal.mean, normal.log_prob(parts.y_test), ends)
        prediction = model.predict(parts.X_test)
        log_prob = prediction.log_prob(parts.y_test)
        yield _score(data, "deep GP", parts.y_test, prediction.mean, log_prob, prediction.interval(0.95))


def _score(data: str, model: str, y: Tensor, mean: Tensor, log_prob: Tensor, ends: tuple[Tensor, Tensor]) -> Score:
    lower, upper = ends
    covered = ((y > lower) & (y < upper)).float().mean()
    return Score(data, model, (y - mean).square().mean().sqrt().item(), -log_prob.mean().item(), covered.item())
