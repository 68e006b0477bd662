"""What a mismatch of spectra does to predictions (paper, section 4.3).

    Var[f(x)] = (k(x, x) − k_u(x)ᵀ Kuu⁻¹ k_u(x)) + k_u(x)ᵀ Kuu⁻¹ Σ Kuu⁻¹ k_u(x)
                 unexplained prior                   posterior of u,   q(u) = N(μ, Σ)

Softplus has no levels n = 3, 5, 7, …; the arc-cosine kernel has none there either, but Matérn has: that part of its
prior stays unexplained, and is predicted as variance everywhere.
"""

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray

from actgp.activations import Softplus
from actgp.demo.data import waves
from actgp.features import ActivatedFeatures, SpectralMismatchWarning
from actgp.kernels import ArcCosine, ZonalKernel, ZonalMatern
from actgp.models import SGPR
from actgp.training import fit
from actgp_experiments import plots, synthetic

NUM_INDUCING = 20
NUM_LEVELS = 20
SEED = 0
EXTENT = 2.2
COLUMNS = ("series", "elbo", "x", "mean", "unexplained", "posterior")


class Fit(NamedTuple):
    """q(f) on a grid: its mean, and the two terms of its variance."""

    elbo: float
    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    unexplained: NDArray[np.float64]
    posterior: NDArray[np.float64]


def compute() -> dict[str, Fit]:
    """Sparse GPs with softplus features, fitted with each kernel: hyper-parameters, directions and q(u)."""
    kernels: dict[str, ZonalKernel] = {"Matérn-5/2": ZonalMatern(1), "arc-cosine": ArcCosine(1)}
    return {name: _fit(kernel) for name, kernel in kernels.items()}


def _fit(kernel: ZonalKernel) -> Fit:
    generator = torch.Generator().manual_seed(SEED)
    features = ActivatedFeatures(1, NUM_INDUCING, Softplus(3.0), NUM_LEVELS, generator=generator)
    with warnings.catch_warnings():
        # That softplus does not fit Matérn is what the figure shows.
        warnings.simplefilter("ignore", SpectralMismatchWarning)
        model = SGPR(*waves(), kernel, features)
    fit(model, progress=False)
    X = synthetic.grid(EXTENT)
    with torch.no_grad():
        A = torch.linalg.solve_triangular(model.cholesky().L, features.Kuf(kernel, X), upper=False)  # [M, N]
        unexplained = kernel(X, diag=True) - A.square().sum(0)
        posterior = (model.posterior().scale_tril.T @ A).square().sum(0)  # Σ (Sᵀ A)²
        mean = A.T @ model.posterior().mean[:, 0]
        elbo = model.elbo().item()
    return Fit(elbo, X[:, 0].numpy(), mean.numpy(), unexplained.numpy(), posterior.numpy())


def draw(folder: Path) -> Path:
    """Draws the figure `matern_vs_arccosine`."""
    fits = compute()
    X, y = waves()
    with plots.style():
        figure = plots.figure(7.4, 5.4)
        panels = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 2))
        for (top, bottom), (name, result) in zip(panels.T, fits.items(), strict=True):
            _panels(top, bottom, result)
            top.plot(X[:, 0].numpy(), y.numpy(), ".", color=plots.BLACK, markersize=3.5, label="data")
            top.set(title=f"{name}: ELBO {plots.number(result.elbo)}", ylim=(-3.2, 3.2))
            bottom.set(xlabel="x", title="the two terms of the variance")
        panels[0, 0].set_ylabel("f(x)")
        panels[1, 0].set_ylabel("variance")
        panels[0, 0].legend(loc="lower left")
        panels[1, 1].legend(loc="upper center")
        plots.caption(
            figure,
            f"Sparse GPs with {NUM_INDUCING} softplus features (β = 3). Top: posterior mean of f, and two standard "
            "deviations. Under Matérn the features cannot explain the prior, whose odd levels they lack: the "
            "unexplained variance is large everywhere, and the bound lower. Under arc-cosine the spectra match.",
        )
        rows: list[tuple[object, ...]] = [
            ("data", None, x, value, None, None) for x, value in zip(X[:, 0].tolist(), y.tolist(), strict=True)
        ]
        rows += [
            (name, result.elbo, *map(float, values))
            for name, result in fits.items()
            for values in zip(*result[1:], strict=True)
        ]
        return plots.save(figure, folder / "matern_vs_arccosine.png", COLUMNS, rows)


def _panels(top: Axes, bottom: Axes, result: Fit) -> None:
    plots.band(top, result.x, result.mean, np.sqrt(result.unexplained + result.posterior), plots.BLUE)
    bottom.plot(result.x, result.unexplained, color=plots.VERMILION, label="unexplained prior")
    bottom.plot(result.x, result.posterior, color=plots.GREEN, label="posterior of u")
