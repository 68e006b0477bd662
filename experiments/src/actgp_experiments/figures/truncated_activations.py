"""Activations and their truncated series, in several dimensions (paper, section 4.3).

    σ̃(t) = Σ_{n<Ñ} a_n P_n(t)

The weight of the sphere, (1−t²)^((d−3)/2), gathers around t = 0 as d grows: the series spends its levels there, and
reaches the ends of [−1, 1] late. A smooth activation needs few levels anywhere.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from actgp.activations import Activation, ReLU, Softplus
from actgp.sphere import spectrum, zonal_series
from actgp_experiments import plots

DIMENSIONS = (3, 5, 9, 17)
TRUNCATIONS = (5, 10, 20)
NUM_POINTS = 401
COLUMNS = ("activation", "dimension", "num_levels", "t", "exact", "truncated")


class Truncated(NamedTuple):
    """One activation in one dimension with one truncation, on a grid of [−1, 1]."""

    activation: str
    dimension: int
    num_levels: int
    t: NDArray[np.float64]
    exact: NDArray[np.float64]
    truncated: NDArray[np.float64]


def compute() -> list[Truncated]:
    """Every activation, dimension and truncation."""
    t = torch.linspace(-1.0, 1.0, NUM_POINTS, dtype=torch.float64)
    activations: dict[str, Activation] = {"ReLU": ReLU(), "softplus": Softplus(3.0)}
    results = []
    for name, activation in activations.items():
        exact = activation(t)
        for d in DIMENSIONS:
            energies = spectrum(activation, d, max(TRUNCATIONS)).energies
            for levels in TRUNCATIONS:
                truncated = zonal_series(t, energies[:levels], d)
                results.append(Truncated(name, d, levels, t.numpy(), exact.numpy(), truncated.numpy()))
    return results


def draw(folder: Path) -> Path:
    """Draws the figure `truncated_activations`."""
    results = compute()
    names = list(dict.fromkeys(result.activation for result in results))
    colours = dict(zip(TRUNCATIONS, plots.shades(len(TRUNCATIONS)), strict=True))
    with plots.style():
        figure = plots.figure(7.4, 4.2)
        panels = figure.subplots(len(names), len(DIMENSIONS), sharex=True, sharey=True)
        for result in results:
            axes = panels[names.index(result.activation), DIMENSIONS.index(result.dimension)]
            if result.num_levels == TRUNCATIONS[0]:
                axes.plot(result.t, result.exact, color=plots.LIGHT, linewidth=4.5, label="exact")
            axes.plot(result.t, result.truncated, color=colours[result.num_levels], label=f"Ñ = {result.num_levels}")
            axes.set_title(f"{result.activation}, d = {result.dimension}")
        for axes in panels[-1]:
            axes.set(xlabel="t", ylim=(-0.35, 1.2))
        for axes in panels[:, 0]:
            axes.set_ylabel("σ(t)")
        panels[0, 0].legend(loc="upper left")
        plots.caption(
            figure,
            "ReLU and softplus (β = 3), and their series cut after Ñ levels, in d dimensions. Few levels suffice in "
            "low dimension. In high dimension they still do for softplus, whose curves coincide, while ReLU's series "
            "fails towards the ends.",
        )
        rows = (
            (*result[:3], *map(float, values))
            for result in results
            for values in zip(result.t, result.exact, result.truncated, strict=True)
        )
        return plots.save(figure, folder / "truncated_activations.png", COLUMNS, rows)
