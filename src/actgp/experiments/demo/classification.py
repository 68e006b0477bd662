"""Two classes in two dimensions, like the paper's banana: networks of one and three layers, and their deep GPs.

The network is the deep GP's own, as it was at the end of the first stage, trained on the cross-entropy.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from gpytorch.likelihoods import BernoulliLikelihood
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, log_loss
from torch import Tensor

from actgp.models import deep_gp
from actgp.training import Recipe, fit

NUM_INDUCING = 64
DEPTHS = (1, 3)
RECIPE = Recipe(network_steps=600, num_steps=300, objective="elbo", kl_weight=1.0)
NUM_TRAIN, NUM_TEST = 400, 2_000
EXTENT, RESOLUTION = 4.0, 81
SEED = 0


class Score(NamedTuple):
    """How a model does on held-out data, and its probabilities over a plane much larger than the data."""

    depth: int
    model: str
    accuracy: float
    log_likelihood: float
    surface: NDArray[np.float64]  # p(y = 1), [RESOLUTION, RESOLUTION]


class Labelled(NamedTuple):
    """Points and their classes, 0 or 1."""

    X: Tensor
    y: Tensor


def bananas(num_points: int, seed: int) -> Labelled:
    """Two crescents that overlap, standardised about as the paper's data are."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, num_points)
    angle = random.uniform(0, np.pi, num_points)
    side = 2 * y - 1
    X = np.stack([1.2 * np.cos(angle) + 0.5 * side, side * (np.sin(angle) - 0.45)], axis=1)
    X += 0.33 * random.standard_normal(X.shape)
    return Labelled(torch.from_numpy(X), torch.from_numpy(y))


def plane() -> tuple[NDArray[np.float64], Tensor]:
    """The axis of a square grid, and its points: [RESOLUTION²,  2]."""
    axis = np.linspace(-EXTENT, EXTENT, RESOLUTION)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return axis, torch.from_numpy(points)


def scores() -> Iterator[Score]:
    """Trains a model of each depth, and judges it as a network and as a deep GP."""
    train, test = bananas(NUM_TRAIN, SEED), bananas(NUM_TEST, SEED + 1)
    _, points = plane()
    for depth in DEPTHS:
        generator = torch.Generator().manual_seed(SEED)
        model = deep_gp(
            2,
            num_layers=depth,
            num_inducing=NUM_INDUCING,
            kernel="matched",
            likelihood=BernoulliLikelihood(),
            generator=generator,
        ).double()
        network = fit(model, train.X, train.y, RECIPE, generator=generator).network
        assert network is not None
        with torch.no_grad():
            p, surface = (torch.special.ndtr(network(X)) for X in (test.X, points))
        yield _score(depth, "network", test, p, surface)
        p, surface = (model.predict(X).mean for X in (test.X, points))
        yield _score(depth, "deep GP", test, p, surface)


def _score(depth: int, model: str, test: Labelled, p: Tensor, surface: Tensor) -> Score:
    y, p1 = test.y.numpy(), p.numpy()
    return Score(
        depth,
        model,
        float(accuracy_score(y, p1 > 0.5)),
        -float(log_loss(y, p1)),
        surface.numpy().reshape(RESOLUTION, RESOLUTION),
    )
