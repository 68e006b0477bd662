"""An activated inducing function of R² on the unit circle and on the data line (paper, section 4.1).

    g(x) = r σ(ŵ · x̂),   r = ‖x‖,   x̂ = x / r

Data lie on the line x₂ = 1, lifted there by the bias. g is linear along every ray from the origin, so its values on
the line and on the upper half of the circle determine each other.
"""

from math import pi
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from actgp.activations import Activation, ReLU, Softplus
from actgp.sphere import project
from actgp_experiments import plots

DIRECTION = (0.8, 0.6)
EXTENT = 2.0  # the line is drawn for |x₁| ≤ 2
NUM_POINTS = 241
COLUMNS = ("activation", "curve", "x1", "x2", "value")
TITLES = {"ReLU": "ReLU, σ(t) = max(0, t)", "softplus": "softplus, σ(t) = log(1 + exp(3t)) / 3"}


class Curve(NamedTuple):
    """Points of the plane, and g there."""

    points: NDArray[np.float64]  # [N, 2]
    values: NDArray[np.float64]  # [N]


class Projection(NamedTuple):
    """g on the unit circle and on the line x₂ = 1."""

    circle: Curve
    line: Curve


def compute() -> dict[str, Projection]:
    """Both activations, each on circle and line."""
    angle = np.linspace(0.0, 2 * pi, NUM_POINTS)
    x1 = np.linspace(-EXTENT, EXTENT, NUM_POINTS)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    line = np.stack([x1, np.ones_like(x1)], axis=-1)
    activations: dict[str, Activation] = {"ReLU": ReLU(), "softplus": Softplus(3.0)}
    return {
        name: Projection(*(Curve(points, inducing_function(activation, points)) for points in (circle, line)))
        for name, activation in activations.items()
    }


def inducing_function(activation: Activation, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """g(x) = r σ(ŵ · x̂) at the rows of `points`."""
    radius, direction = project(torch.from_numpy(points))
    t = direction @ torch.tensor(DIRECTION, dtype=torch.float64)
    values: NDArray[np.float64] = (radius * activation(t)).numpy()
    return values


def draw(folder: Path) -> Path:
    """Draws the figure `projection`."""
    results = compute()
    with plots.style():
        figure = plots.figure(7.4, 4.0)
        for i, (name, result) in enumerate(results.items()):
            _panel(figure, i, TITLES[name], result)
        plots.caption(
            figure,
            "g(x) = r σ(ŵ·x̂) over the plane, shown on the unit circle (orange) and on the line x₂ = 1, where the data "
            "are (blue); their bases in grey. Every ray from the origin (dashed) meets both curves: the "
            "upper half of the orange curve and the blue one determine each other.",
        )
        rows = (
            (name, curve, *map(float, point), float(value))
            for name, result in results.items()
            for curve, (points, values) in result._asdict().items()
            for point, value in zip(points, values, strict=True)
        )
        return plots.save(figure, folder / "projection.png", COLUMNS, rows)


def _panel(figure: Figure, position: int, title: str, result: Projection) -> None:
    axes: Any = figure.add_subplot(1, 2, position + 1, projection="3d")
    for curve, colour, label in (
        (result.circle, plots.ORANGE, "unit circle"),
        (result.line, plots.BLUE, "line x₂ = 1"),
    ):
        axes.plot(*curve.points.T, np.zeros(len(curve.points)), color=plots.GREY, linewidth=0.9)
        axes.plot(*curve.points.T, curve.values, color=colour, linewidth=2.2, label=label)
    for end in range(0, NUM_POINTS, NUM_POINTS // 8):
        (x1, x2), value = result.line.points[end], result.line.values[end]
        radius = np.hypot(x1, x2)
        axes.plot([0, x1], [0, x2], [0, value], color=plots.GREY, linewidth=0.7, linestyle=(0, (3, 2)))
        for scale, colour in ((1 / radius, plots.ORANGE), (1.0, plots.BLUE)):
            axes.plot([x1 * scale], [x2 * scale], [value * scale], "o", color=colour, markersize=3)
    axes.set(title=title, xlabel="x₁", ylabel="x₂", xlim=(-EXTENT, EXTENT), ylim=(-1.2, 1.2), zlim=(0, 2.5))
    axes.set(xticks=(-2, -1, 0, 1, 2), yticks=(-1, 0, 1), zticks=(0, 1, 2))
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_tick_params(pad=0)
    axes.text(EXTENT, 1.2, 2.65, "g(x)", ha="center")
    axes.set_box_aspect((4.0, 2.6, 2.4), zoom=0.97)
    axes.view_init(elev=26, azim=-62)
    axes.legend(loc="upper left")
