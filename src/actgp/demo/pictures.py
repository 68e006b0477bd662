"""The demo's pictures: one model read in two ways, and probabilities far from the data."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from actgp.activations import Softplus
from actgp.demo import plots
from actgp.demo.classification import Score
from actgp.demo.data import Data, waves
from actgp.features import ActivatedFeatures
from actgp.kernels import ArcCosine
from actgp.models import SGPR
from actgp.training import Recipe, fit

NUM_UNITS = 13
SHARPNESS = 6.0  # sharp enough to see each unit's kink
EXTENT = 2.5
SIDE, RESOLUTION = 8.0, 81  # of the plane, and points along its side


def two_readings(path: Path) -> Path:
    """One sparse GP: on the left the network that is its mean, on the right the process."""
    X, y = waves()
    features = ActivatedFeatures(1, NUM_UNITS, Softplus(SHARPNESS))
    with torch.no_grad():  # kinks evenly around the circle, every other one facing left
        angles = torch.arange(NUM_UNITS) * (2 * torch.pi / NUM_UNITS) + 0.1
        features.weights.copy_(torch.stack([angles.cos(), angles.sin()], dim=-1))
    features.weights.requires_grad_(False)
    model = SGPR(X, y, ArcCosine(1), features)
    fit(model, recipe=Recipe(num_steps=100))
    grid = torch.linspace(-EXTENT, EXTENT, 201, dtype=torch.float64).unsqueeze(-1)
    prediction = model.predict(grid)
    with torch.no_grad():
        # mean = Kufᵀ V: each hidden unit times its output weight
        V = model.output_weights()  # [M, 1]
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
        return plots.save(figure, path, columns, rows)


def probabilities(path: Path, data: Data, scores: Sequence[Score]) -> Path:
    """p(y = 1) over a plane much larger than the data: networks on the left, their deep GPs on the right."""
    axis = np.linspace(-SIDE / 2, SIDE / 2, RESOLUTION)
    plane = np.stack(np.meshgrid(axis, axis), axis=-1)  # [R, R, 2]
    points = torch.from_numpy(plane.reshape(-1, 2))
    surfaces = [score.probability(points).numpy().reshape(RESOLUTION, RESOLUTION) for score in scores]
    depths = len(scores) // 2
    with plots.style():
        figure = plots.figure(6.6, 3.0 * depths)
        panels = figure.subplots(depths, 2, sharex=True, sharey=True, squeeze=False)
        for axes, score, surface in zip(panels.flat, scores, surfaces, strict=True):
            image = axes.contourf(axis, axis, surface, np.linspace(0, 1, 21), cmap=plots.DIVERGING, alpha=0.75)
            axes.contour(axis, axis, surface, levels=[0.5], colors=plots.BLACK, linewidths=0.8)
            for label, colour in ((0, plots.BLUE), (1, plots.VERMILION)):
                X = data.X[data.y == label].numpy()
                axes.plot(*X.T, "o", color=colour, markersize=2.6, markeredgecolor="white", markeredgewidth=0.3)
            layers = "1 layer" if score.depth == 1 else f"{score.depth} layers"
            log_likelihood = f"{score.log_likelihood:.3f}".replace("-", "−")
            axes.set(title=f"{score.model}, {layers}: {log_likelihood}")
            axes.set_aspect("equal")
            axes.grid(visible=False)
        about = (
            "Dots: training points, blue for y = 0, orange for y = 1. In the titles: log-likelihood of held-out points."
        )
        plots.caption(figure, about)
        figure.colorbar(image, ax=panels, label="p(y = 1)", ticks=[0, 0.25, 0.5, 0.75, 1], shrink=0.6)
        columns = ("x1", "x2", *(f"{score.model}_{score.depth}".replace(" ", "_") for score in scores))
        rows = np.column_stack([points, *(surface.reshape(-1) for surface in surfaces)]).tolist()
        return plots.save(figure, path, columns, rows)
