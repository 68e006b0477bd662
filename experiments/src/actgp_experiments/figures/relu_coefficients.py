"""The coefficients of ReLU by degree, in several dimensions (paper, appendix C).

    σ_n = Γ(d/2) (−1)^(n/2−1) Γ(n−1) / (√π 2^n Γ(n/2) Γ(n/2+(d+1)/2))   for n = 2, 4, 6, …

and exactly zero for n = 3, 5, 7, …
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from actgp.activations import ReLU
from actgp.sphere import spectrum
from actgp_experiments import plots

DIMENSIONS = (3, 5, 10, 20, 50)
NUM_LEVELS = 21
COLUMNS = ("dimension", "level", "coefficient")


def compute() -> dict[int, NDArray[np.float64]]:
    """σ_0, …, σ_20 by dimension."""
    return {d: spectrum(ReLU(), d, NUM_LEVELS).eigenvalues.numpy() for d in DIMENSIONS}


def draw(folder: Path) -> Path:
    """Draws the figure `relu_coefficients`."""
    coefficients = compute()
    levels = np.arange(NUM_LEVELS)
    with plots.style():
        figure = plots.figure(6.0, 4.0)
        axes = figure.subplots()
        for (d, sigma), colour in zip(coefficients.items(), plots.shades(len(DIMENSIONS)), strict=True):
            there = sigma != 0
            axes.plot(levels[there], np.abs(sigma[there]), "o-", color=colour, linewidth=1.0, label=f"d = {d}")
        missing = levels[np.all([sigma == 0 for sigma in coefficients.values()], axis=0)]
        plots.mark_missing(axes, missing)
        axes.set(yscale="log", xlabel="degree n", ylabel="|σₙ|", xticks=levels[::2], ylim=(1e-13, 1))
        axes.legend(loc="upper right", ncols=2)
        plots.caption(
            figure,
            "Fourier coefficients of ReLU in d dimensions. Those of odd degree n ≥ 3 (crosses) are exactly zero; the "
            "others fall the faster the higher the dimension.",
        )
        rows = ((d, n, float(value)) for d, sigma in coefficients.items() for n, value in enumerate(sigma))
        return plots.save(figure, folder / "relu_coefficients.png", COLUMNS, rows)
