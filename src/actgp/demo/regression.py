"""Regression: a network, and the deep GP that it becomes.

Data are standardised on the training part, scores taken on the held-out part in standardised units. The network is the
deep GP's own, as it was at the end of the first stage; its variance is its training error, as in the paper's NN
baseline.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.distributions import Normal

from actgp.demo.data import tables
from actgp.models import Layers, deep_gp
from actgp.training import Recipe, fit

NUM_INDUCING = 64
RECIPE = Recipe(network_steps=1_000, num_steps=300)
SEED = 0
COLUMNS = ("data", "model", "RMSE", "NLPD", "95 % coverage")


class Score(NamedTuple):
    """How a model does on held-out data, in standardised units."""

    data: str
    model: str
    rmse: float
    nlpd: float
    coverage: float

    @property
    def row(self) -> tuple[str, ...]:
        """A row of a table with `COLUMNS`."""
        return self.data, self.model, f"{self.rmse:.3f}", f"{self.nlpd:.3f}", f"{self.coverage:.0%}"


def scores() -> Iterator[Score]:
    """Trains a model on every data set, one at a time, and scores it as a network and as a deep GP."""
    for name, table in tables().items():
        X, X_test, y, y_test = _standardised(*table)
        generator = torch.Generator().manual_seed(SEED)
        model = deep_gp(X.shape[1], num_inducing=NUM_INDUCING, layers=Layers(kernel="matched"), generator=generator)
        network = fit(model, X, y, RECIPE, generator=generator).network
        assert network is not None
        with torch.no_grad():
            normal = Normal(network(X_test), (network(X) - y).square().mean().sqrt())
        half = 1.959964 * normal.stddev
        ends = normal.mean - half, normal.mean + half
        yield _score(name, "network", y_test, normal.mean, normal.log_prob(y_test), ends)
        prediction = model.predict(X_test)
        yield _score(name, "deep GP", y_test, prediction.mean, prediction.log_prob(y_test), prediction.interval(0.95))


def _standardised(X: NDArray[np.float64], y: NDArray[np.float64]) -> Iterator[Tensor]:
    """Inputs to train on, four fifths, and to test with; then targets."""
    X, X_test, y, y_test = train_test_split(X, y.reshape(-1, 1), test_size=0.2, random_state=SEED)
    inputs, targets = StandardScaler().fit(X), StandardScaler().fit(y)
    scaled = inputs.transform(X), inputs.transform(X_test), targets.transform(y)[:, 0], targets.transform(y_test)[:, 0]
    return (torch.from_numpy(values).float() for values in scaled)


def _score(data: str, model: str, y: Tensor, mean: Tensor, log_prob: Tensor, ends: tuple[Tensor, Tensor]) -> Score:
    lower, upper = ends
    covered = ((y > lower) & (y < upper)).float().mean()
    return Score(data, model, (y - mean).square().mean().sqrt().item(), -log_prob.mean().item(), covered.item())
