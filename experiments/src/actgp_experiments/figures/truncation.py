"""What the truncation does to predictions (paper, section 4.3).

    ‖g̃‖² = Σ_{n<Ñ} c_n,   c_n = a_n² / k_n,   at v = 1

Under the arc-cosine kernel c_n does not decay for ReLU: the closer g̃ comes to g, the larger its norm, the less an
inducing variable explains, and the larger the predictive variance. For softplus the sum converges.

Six sparse GPs, alike in all but activation and Ñ: the kernel and noise of the exact GP, the same directions, the
optimal q(u). There are fewer inducing variables than harmonics below each Ñ; with more, every activation would span
them all, and its norm would not matter.
"""

import warnings
from math import pi
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from actgp.activations import Activation, ReLU, Softplus
from actgp.demo.data import NUM_WAVES, waves
from actgp.features import ActivatedFeatures, SpectralMismatchWarning, spectral_match
from actgp.kernels import ArcCosine
from actgp.models import SGPR
from actgp_experiments import plots, synthetic

TRUNCATIONS = (10, 15, 25)
MAX_LEVELS = 30
NUM_INDUCING = 10
EXTENT = 2.5
COLUMNS = ("quantity", "activation", "num_levels", "x", "value")


class Truncation(NamedTuple):
    """Predictive variances of f on a grid, and norms for Ñ = 1, …, 30."""

    x: NDArray[np.float64]  # [N]
    variances: dict[tuple[str, int], NDArray[np.float64]]  # by activation and Ñ: [N]
    norms: dict[str, NDArray[np.float64]]  # by activation: [30]


def compute() -> Truncation:
    """Variances and norms with ReLU and with softplus features."""
    exact = synthetic.exact_gp(ArcCosine(1))
    X = synthetic.grid(EXTENT)
    activations: dict[str, Activation] = {"ReLU": ReLU(), "softplus": Softplus(3.0)}
    variances, norms = {}, {}
    for name, activation in activations.items():
        c = spectral_match(ArcCosine(1), activation.energies(2, MAX_LEVELS), 2, torch.device("cpu")).norms
        norms[name] = c.cumsum(0).sqrt().numpy()
        for levels in TRUNCATIONS:
            features = ActivatedFeatures(1, NUM_INDUCING, activation, levels)
            with torch.no_grad():
                features.weights.copy_(_directions(NUM_INDUCING))
            with warnings.catch_warnings():
                # That ReLU does not fit the kernel is what the figure shows.
                warnings.simplefilter("ignore", SpectralMismatchWarning)
                model = SGPR(*waves(), exact.kernel, features, exact.likelihood)
            variances[name, levels] = model.predict(X).latent_variance.numpy()
    return Truncation(X[:, 0].numpy(), variances, norms)


def draw(folder: Path) -> Path:
    """Draws the figure `truncation`."""
    result = compute()
    colours = dict(zip(TRUNCATIONS, plots.shades(len(TRUNCATIONS)), strict=True))
    with plots.style():
        figure = plots.figure(7.4, 5.2)
        panels = figure.subplots(2, 2, sharex="row", sharey="row")
        for column, (name, norms) in enumerate(result.norms.items()):
            top, bottom = panels[:, column]
            for levels, colour in colours.items():
                top.plot(result.x, result.variances[name, levels], color=colour, label=f"Ñ = {levels}")
                bottom.plot(levels, norms[levels - 1], "o", color=colour, zorder=3)
            top.plot(waves().X, np.full(NUM_WAVES, 2e-3), "|", color=plots.GREY, label="data")
            bottom.step(range(1, MAX_LEVELS + 1), norms, where="mid", color=plots.BLACK, linewidth=1.2)
            top.set(title=f"{name}: predictive variance", xlabel="x", yscale="log")
            bottom.set(title=f"{name}: norm of the feature", xlabel="number of levels Ñ", ylim=(0, 3))
        panels[0, 0].set_ylabel("Var[f(x)]")
        panels[1, 0].set_ylabel("‖g̃‖ in the RKHS")
        panels[0, 1].legend(loc="upper center", ncols=2)
        plots.caption(
            figure,
            f"Sparse GPs with {NUM_INDUCING} activated features and the arc-cosine kernel. With ReLU the norm of a "
            "feature grows with the truncation, and the predictive variance with it. The norm of softplus converges "
            "by Ñ = 5, and its variance barely changes.",
        )
        return plots.save(figure, folder / "truncation.png", COLUMNS, _rows(result))


def _directions(count: int) -> Float[Tensor, "M 2"]:
    """Unit vectors spread evenly over half of the circle: ±ŵ give the same even levels."""
    angle = (torch.arange(count) + 0.5) * pi / count
    return torch.stack([angle.cos(), angle.sin()], dim=-1)


def _rows(result: Truncation) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [
        ("variance", name, levels, float(x), float(value))
        for (name, levels), values in result.variances.items()
        for x, value in zip(result.x, values, strict=True)
    ]
    rows += [
        ("norm", name, levels, None, float(value))
        for name, values in result.norms.items()
        for levels, value in enumerate(values, start=1)
    ]
    return rows
