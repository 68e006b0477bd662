"""Exact GP regression with a zonal Matérn-5/2 and an arc-cosine kernel (paper, appendix D).

Both kernels suit the data: what goes wrong with Matérn in a sparse GP with activated features is the features' doing.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from actgp.demo.data import waves
from actgp.kernels import ArcCosine, ZonalKernel, ZonalMatern
from actgp_experiments import plots, synthetic

EXTENT = 2.2
COLUMNS = ("series", "log_evidence", "x", "mean", "sd")


class Fit(NamedTuple):
    """The posterior of f on a grid."""

    log_evidence: float
    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]


def compute() -> dict[str, Fit]:
    """The exact GP with each kernel."""
    kernels: dict[str, ZonalKernel] = {"Matérn-5/2": ZonalMatern(1), "arc-cosine": ArcCosine(1)}
    X = synthetic.grid(EXTENT)
    fits = {}
    for name, kernel in kernels.items():
        model = synthetic.exact_gp(kernel)
        f = model.predict(X)
        with torch.no_grad():
            log_evidence = model.log_evidence().item()
        fits[name] = Fit(log_evidence, X[:, 0].numpy(), f.latent_mean.numpy(), f.latent_variance.sqrt().numpy())
    return fits


def draw(folder: Path) -> Path:
    """Draws the figure `exact_gp`."""
    fits = compute()
    X, y = waves()
    with plots.style():
        figure = plots.figure(7.4, 3.4)
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        for axes, (name, fit) in zip(panels, fits.items(), strict=True):
            plots.band(axes, fit.x, fit.mean, fit.sd, plots.BLUE)
            axes.plot(X[:, 0].numpy(), y.numpy(), ".", color=plots.BLACK, markersize=3.5, label="data")
            axes.set(title=f"{name}: log evidence {plots.number(fit.log_evidence)}", xlabel="x", ylim=(-3.2, 3.2))
        panels[0].set_ylabel("f(x)")
        panels[0].legend(loc="lower left")
        plots.caption(
            figure,
            "Exact GP regression with zonal kernels, hyper-parameters at the maximum of the log evidence: posterior "
            "mean of f, and two standard deviations. Both kernels fit.",
        )
        rows: list[tuple[object, ...]] = [
            ("data", None, x, value, None) for x, value in zip(X[:, 0].tolist(), y.tolist(), strict=True)
        ]
        rows += [
            (name, fit.log_evidence, *map(float, values))
            for name, fit in fits.items()
            for values in zip(*fit[1:], strict=True)
        ]
        return plots.save(figure, folder / "exact_gp.png", COLUMNS, rows)
