"""Which levels kernels and activations have (paper, appendix C).

λ_n of the arc-cosine and the zonal Matérn-5/2 kernel, and σ_n of ReLU and softplus: all but Matérn lack the odd
levels n ≥ 3, so that arc-cosine fits both activations and Matérn neither.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from actgp.activations import ReLU, Softplus
from actgp.kernels import ArcCosine, ZonalMatern
from actgp.sphere import Zonal, spectrum
from actgp_experiments import plots

DIMENSION = 3
NUM_LEVELS = 16
COLUMNS = ("shape", "kind", "dimension", "level", "eigenvalue")
KINDS = {"arc-cosine": "kernel", "Matérn-5/2": "kernel", "ReLU": "activation", "softplus": "activation"}


def compute() -> dict[str, NDArray[np.float64]]:
    """λ_n or σ_n by shape."""
    shapes: dict[str, Zonal] = {
        "arc-cosine": ArcCosine(DIMENSION - 1),
        "Matérn-5/2": ZonalMatern(DIMENSION - 1),
        "ReLU": ReLU(),
        "softplus": Softplus(3.0),
    }
    return {name: spectrum(shape, DIMENSION, NUM_LEVELS).eigenvalues.numpy() for name, shape in shapes.items()}


def draw(folder: Path) -> Path:
    """Draws the figure `spectra`."""
    eigenvalues = compute()
    levels = np.arange(NUM_LEVELS)
    with plots.style():
        figure = plots.figure(7.4, 5.0)
        panels = figure.subplots(2, 2, sharex=True, sharey="row")
        for axes, (name, values) in zip(panels.flat, eigenvalues.items(), strict=True):
            colour = plots.BLUE if KINDS[name] == "kernel" else plots.ORANGE
            there = values != 0
            axes.vlines(levels[there], 0, np.abs(values[there]), color=colour, linewidth=2.0)
            axes.plot(levels[there], np.abs(values[there]), "o", color=colour)
            plots.mark_missing(axes, levels[~there])
            axes.set(yscale="log", title=f"{name} ({KINDS[name]})", ylim=(1e-7 if KINDS[name] == "kernel" else 1e-9, 1))
        for axes in panels[-1]:
            axes.set(xlabel="level n", xticks=levels[::3])
        panels[0, 0].set_ylabel("λₙ")
        panels[1, 0].set_ylabel("|σₙ|")
        plots.caption(
            figure,
            f"Spectra of kernels (blue) and activations (orange; softplus with β = 3) in d = {DIMENSION}. A cross "
            "marks a level that is exactly zero: the activations lack the levels that arc-cosine lacks; Matérn-5/2 "
            "has them all.",
        )
        rows = (
            (name, KINDS[name], DIMENSION, n, float(value))
            for name, values in eigenvalues.items()
            for n, value in enumerate(values)
        )
        return plots.save(figure, folder / "spectra.png", COLUMNS, rows)
