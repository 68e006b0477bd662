"""Regression on generated and bundled data: activated features against their neighbours, under one protocol.

Data are standardised on the training part, hyper-parameters fitted to the evidence or its bound, scores taken on the
held-out part in standardised units.
"""

from collections.abc import Callable, Iterator
from math import log, pi
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from actgp.features import ActivatedFeatures, InducingPoints
from actgp.kernels import ArcCosine
from actgp.models import GPR, SGPR
from actgp.training import Recipe, fit

NUM_INDUCING = 50
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
    """Waves, which are generated, and diabetes, which comes with scikit-learn."""
    random = np.random.default_rng(SEED)
    X = random.uniform(-2, 2, size=(400, 1))
    y = np.sin(3 * X[:, 0]) + 0.3 * X[:, 0] + 0.15 * random.standard_normal(400)
    return {"waves": (X, y), "diabetes": load_diabetes(return_X_y=True)}


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
    return Split(*(torch.from_numpy(values) for values in scaled))


def network(parts: Split) -> tuple[Tensor, Tensor]:
    """A network with as many hidden units; its variance is the training error, as in the paper's NN baseline."""
    model = MLPRegressor(
        hidden_layer_sizes=(NUM_INDUCING,), max_iter=5_000, n_iter_no_change=100, random_state=SEED
    ).fit(parts.X.numpy(), parts.y.numpy())
    residuals = parts.y.numpy() - model.predict(parts.X.numpy())
    mean = torch.from_numpy(model.predict(parts.X_test.numpy()))
    return mean, torch.full_like(mean, float(np.mean(residuals**2)))


def exact(parts: Split) -> tuple[Tensor, Tensor]:
    """Exact GP regression."""
    model = GPR(parts.X, parts.y, ArcCosine(parts.X.shape[1]))
    fit(model, recipe=Recipe(num_steps=50))
    prediction = model.predict(parts.X_test)
    return prediction.mean, prediction.variance


def inducing_points(parts: Split) -> tuple[Tensor, Tensor]:
    """A sparse GP with classic inducing points, which start at training inputs."""
    return _sparse(parts, InducingPoints(parts.X[:NUM_INDUCING]))


def activated(parts: Split) -> tuple[Tensor, Tensor]:
    """A sparse GP with activated features: a layer of softplus units."""
    generator = torch.Generator().manual_seed(SEED)
    return _sparse(parts, ActivatedFeatures(parts.X.shape[1], NUM_INDUCING, "softplus", generator=generator))


def _sparse(parts: Split, features: ActivatedFeatures | InducingPoints) -> tuple[Tensor, Tensor]:
    model = SGPR(parts.X, parts.y, ArcCosine(parts.X.shape[1]), features)
    fit(model, recipe=Recipe(num_steps=50))
    prediction = model.predict(parts.X_test)
    return prediction.mean, prediction.variance


MODELS: dict[str, Callable[[Split], tuple[Tensor, Tensor]]] = {
    "network": network,
    "exact GP": exact,
    "sparse GP, inducing points": inducing_points,
    "sparse GP, activated units": activated,
}


def scores() -> Iterator[Score]:
    """Fits every model to every data set, one at a time."""
    for data, (X, y) in data_sets().items():
        parts = split(X, y)
        for name, model in MODELS.items():
            mean, variance = model(parts)
            error = parts.y_test - mean
            nlpd = 0.5 * (log(2 * pi) + variance.log() + error**2 / variance).mean().item()
            coverage = (error.abs() < 1.959964 * variance.sqrt()).double().mean().item()
            rmse = root_mean_squared_error(parts.y_test.numpy(), mean.numpy())
            yield Score(data, name, float(rmse), nlpd, coverage)
