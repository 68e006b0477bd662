"""The demo's pictures: one model read in two ways, and probabilities far from the data."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from actgp import plots
from actgp.activations import Softplus
from actgp.experiments import synthetic
from actgp.experiments.demo import classification
from actgp.experiments.two_classes import Score, draw
from actgp.features import ActivatedFeatures
from actgp.kernels import ArcCosine
from actgp.models import SGPR
from actgp.training import Recipe, fit

NUM_UNITS = 13
SHARPNESS = 6.0  # sharp enough to see each unit's kink
EXTENT = 2.5


def two_readings(folder: Path) -> Path:
    """One sparse GP: on the left the network that is its mean, on the right the process."""
    X, y = synthetic.data()
    features = ActivatedFeatures(1, NUM_UNITS, Softplus(SHARPNESS))
    with torch.no_grad():  # kinks evenly around the circle, every other one facing left
        angles = torch.arange(NUM_UNITS) * (2 * torch.pi / NUM_UNITS) + 0.1
        features.weights.copy_(torch.stack([angles.cos(), angles.sin()], dim=-1))
    features.weights.requires_grad_(False)
    model = SGPR(X, y, ArcCosine(1), features)
    fit(model, recipe=Recipe(num_steps=100))
    grid = synthetic.grid(EXTENT)
    prediction = model.predict(grid)
    with torch.no_grad():
        # mean = Kufᵀ V with V = L⁻ᵀ m: each hidden unit times its output weight
        V = torch.linalg.solve_triangular(model.cholesky().L.mT, model.posterior().mean, upper=True)  # [M, 1]
        units = (features.Kuf(model.kernel, grid) * V).numpy()  # [M, N]
    x, mean, sd = grid[:, 0].numpy(), prediction.latent_mean.numpy(), prediction.latent_variance.sqrt().numpy()
    with plots.style():
        figure = plots.figure(7.4, 3.2)
        left, right = figure.subplots(1, 2, sharex=True)
        limit = 6.0
        left.plot(x, units.T, color=plots.ORANGE, linewidth=0.9, alpha=0.8)
        left.plot([], [], color=plots.ORANGE, linewidth=0.9, label="hidden units × output weights")
        left.plot(x, mean, color=plots.BLUE, label="their sum: the output")
        left.set(title=f"a network of {NUM_UNITS} softplus units …", xlabel="x", ylim=(-limit, limit))
        left.legend(loc="lower left", frameon=True, framealpha=0.9, edgecolor="none")
        plots.band(right, x, mean, sd, plots.BLUE)
        right.plot(X[:, 0].numpy(), y.numpy(), ".", color=plots.BLACK, markersize=3.5, label="data")
        right.set(title="… is the mean of a Gaussian process", xlabel="x", ylim=(-3.2, 3.2))
        right.legend(loc="lower left", ncols=3)
        columns = ("x", "mean", "sd", *(f"unit_{m}" for m in range(NUM_UNITS)))
        rows = np.column_stack([x, mean, sd, units.T]).tolist()
        return plots.save(figure, folder / "two_readings.png", columns, rows)


def probabilities(folder: Path, scores: Sequence[Score]) -> Path:
    """p(y = 1) over a plane much larger than the data."""
    return draw(folder / "probabilities.png", classification.study(), scores)
