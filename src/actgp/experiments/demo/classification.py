"""Two crescents that overlap, like the paper's banana data: networks of one and three layers, and their deep GPs."""

from collections.abc import Iterator

import numpy as np
import torch

from actgp.experiments.two_classes import Labelled, Score, Study, compare
from actgp.training import Recipe

NUM_INDUCING = 64
DEPTHS = (1, 3)
RECIPE = Recipe(network_steps=600, num_steps=300, objective="elbo", kl_weight=1.0)
NUM_TRAIN, NUM_TEST = 400, 2_000
RESOLUTION = 81
SEED = 0


def bananas(num_points: int, seed: int) -> Labelled:
    """Two crescents that overlap, standardised about as the paper's data are."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, num_points)
    angle = random.uniform(0, np.pi, num_points)
    side = 2 * y - 1
    X = np.stack([1.2 * np.cos(angle) + 0.5 * side, side * (np.sin(angle) - 0.45)], axis=1)
    X += 0.33 * random.standard_normal(X.shape)
    return Labelled(torch.from_numpy(X), torch.from_numpy(y))


def study() -> Study:
    """What the demo compares."""
    train, test = bananas(NUM_TRAIN, SEED), bananas(NUM_TEST, SEED + 1)
    return Study(train, test, DEPTHS, NUM_INDUCING, RECIPE, resolution=RESOLUTION, seed=SEED)


def scores() -> Iterator[Score]:
    """Trains a model of each depth, and judges it as a network and as a deep GP."""
    return compare(study())
