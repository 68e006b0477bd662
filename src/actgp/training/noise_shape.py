"""How the noise around a trained network varies: its slopes and the width of outliers, with g = 0.

    r_i = y_i − μ(x_i) ~ noise of variance σ² ρ(h_i), and outliers,     log ρ(h) = 4 tanh(cᵀh / 4)

Rows that the network was trained on are many, but their residuals may be small in other places than those of new rows.
So the slopes c are fitted to both kinds of rows, each kind with a level of its own, and are kept only if the held-out
rows bear them out: each fifth of these is predicted with slopes that were fitted to all other rows, and together they
have to be more probable than under noise that is the same everywhere.
"""

import copy
from math import log
from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp.likelihoods import Latent, adapter_of
from actgp.models import DeepGP
from actgp.training.calibrate import (
    has_free_noise,
    has_free_outliers,
    has_free_slopes,
    set_noise,
    set_outlier_noise,
)
from actgp.training.lbfgs import maximise
from actgp.training.objectives import has_priors, log_prior

NUM_STEPS = 60  # of L-BFGS
SLOPE_SD = 0.1  # of the prior of slopes, for columns of h whose mean square is one
OUTLIER_RATIO = 9.0  # where the prior of outliers' noise is centred, relative to that of others
LEVEL_SD, OUTLIER_SD = 2.0, 0.5  # of the priors of logarithms: of σ² and v, and of outliers
SMALLEST_SIZE = 1e-6  # of a column of h: those that are smaller have no slope to speak of
FOLDS = 5
FOLD_STEPS = 15  # of L-BFGS, from slopes that were fitted to all rows
TINY = 1e-30


class Errors(NamedTuple):
    """What a network is off by at some rows.

    Attributes:
        h: What the layer is given.
        r: y − μ.
    """

    h: Float64[Tensor, "N H"]
    r: Float64[Tensor, "N P"]


def start_noise(model: DeepGP, level: float) -> None:
    """Noise that is the same everywhere, and nine times as much for outliers; with priors, parameters stay."""
    likelihood = model.likelihood
    if has_priors(likelihood):
        return
    if has_free_noise(model):
        set_noise(model, level)
    if has_free_outliers(model):
        set_outlier_noise(model, OUTLIER_RATIO * likelihood.noise.item())
    if has_free_slopes(model):
        likelihood.slopes.data.zero_()


def fit_noise(model: DeepGP, judged: Errors, others: Errors | None) -> None:
    """Fits σ², slopes and outliers.

    Args:
        model: Of one layer, with Gaussian noise, as `start_noise` leaves it.
        judged: Rows that say how large errors are.
        others: Rows that the network was trained on, which say only where errors are large.
    """
    likelihood = model.likelihood
    if not has_free_slopes(model) or has_priors(likelihood):
        _fit(model, judged, others)
        return
    size = judged.h.square().mean(0).sqrt().clamp_min(SMALLEST_SIZE)
    judged, scaled = Errors(judged.h / size, judged.r), None if others is None else Errors(others.h / size, others.r)
    _fit(model, judged, scaled)
    if len(judged.r) >= FOLDS and not _are_borne_out(model, judged, scaled):
        likelihood.slopes.data.zero_()
        _fit(model, judged, None, with_slopes=False)
    likelihood.slopes.data.div_(size)  # cᵀ h = (c / size)ᵀ h, for h / size above


def _fit(
    model: DeepGP, judged: Errors, others: Errors | None, *, with_slopes: bool = True, num_steps: int = NUM_STEPS
) -> None:
    """σ², outliers and slopes that make residuals most probable; noise of others is e^δ times as large.

    With p₀ the density of noise at the level of the first, log p(r) = log p₀(e^{−δ/2} r) − δ/2 for the others.
    """
    adapter, likelihood = adapter_of(model.likelihood), model.likelihood
    noise, level = adapter.noise_parameters(), log(mean_square(judged.r))
    first = 0.0 if others is None else log(mean_square(others.r) / mean_square(judged.r))
    delta = torch.tensor(first, dtype=torch.float64, device=judged.r.device, requires_grad=True)

    def objective() -> Tensor:
        total = _log_density(model, judged).sum() + log_prior(model).to(delta)
        total = total + log_normal(likelihood.noise.log(), level, LEVEL_SD)
        if noise.outlier_noise is not None:
            ratio = likelihood.outlier_noise / likelihood.noise
            total = total + log_normal(ratio.log(), log(OUTLIER_RATIO), OUTLIER_SD)
        if noise.slopes is not None:
            total = total + log_normal(noise.slopes, 0.0, SLOPE_SD)
        if others is not None:
            scaled = Errors(others.h, others.r * (-delta / 2).exp())
            total = total + _log_density(model, scaled).sum() - delta / 2 * others.r.numel()
            total = total + log_normal(delta, first, LEVEL_SD)
        return total

    slopes = noise.slopes if with_slopes else None
    if free := those_free(noise.noise, noise.outlier_noise, slopes, None if others is None else delta):
        maximise(free, objective, num_steps)


def _are_borne_out(model: DeepGP, judged: Errors, others: Errors | None) -> bool:
    """Whether slopes that were fitted to all of these rows do more good than harm to rows that they have not seen."""
    fold, gain = torch.arange(len(judged.r), device=judged.r.device) % FOLDS, 0.0
    for k in range(FOLDS):
        own = copy.deepcopy(model)
        kept, left_out = (Errors(judged.h[rows], judged.r[rows]) for rows in (fold != k, fold == k))
        _fit(own, kept, others, num_steps=FOLD_STEPS)
        gain += _log_density(own, left_out).sum().item()
        own.likelihood.slopes.data.zero_()
        _fit(own, kept, None, with_slopes=False, num_steps=FOLD_STEPS)
        gain -= _log_density(own, left_out).sum().item()
    return gain > 0


def _log_density(model: DeepGP, errors: Errors) -> Float64[Tensor, " N"]:
    """log p(r_i) for g = 0."""
    adapter, zero = adapter_of(model.likelihood), torch.zeros_like(errors.r)
    return adapter.log_marginal(errors.r, Latent(zero, zero, adapter.relative_noise(errors.h)))


def log_normal(x: Tensor, mean: Tensor | float, sd: float) -> Tensor:
    """The log density of N(mean, sd²), but for a constant."""
    return -0.5 * ((x - mean) / sd).square().sum()


def those_free(*parameters: Tensor | None) -> list[Tensor]:
    """The parameters that are to be trained."""
    return [p for p in parameters if p is not None and p.requires_grad]


def mean_square(r: Float64[Tensor, "N P"]) -> float:
    """Above zero."""
    return max(r.square().mean().item(), TINY)
