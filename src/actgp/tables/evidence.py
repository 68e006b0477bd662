"""Hyper-parameters of an exact GP, by its evidence: what a GP of one layer begins with.

    log p(y) = Σ_p log N(y_p; 0, K),     K = k(X, X) + σ² I,

for P outputs that share K. Lengthscales are found a posteriori,

    log ℓ_d ~ N(c, 1.5²),     log v ~ N(log v₀, 3²),     log σ² ~ N(−3, 3²),

with c where inputs of unit spread are told apart: columns that say nothing would otherwise be fitted to noise. The
evidence may have several maxima, that of a rough function without noise and that of a smooth one with it; it is climbed
from two sides, and which is better, left-out rows decide. A normal density knows of no outliers: for the evidence,
targets more than six robust standard deviations from their median are brought to that distance.
"""

import copy
from math import inf, log
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from gpytorch.constraints import Positive
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from jaxtyping import Float64
from torch import Tensor

from actgp.kernels import ArcCosine, ZonalKernel
from actgp.linalg import LogDensity
from actgp.training.lbfgs import maximise

NUM_STEPS = 60
TOLERANCE = 1e-5  # a hundredth of a nat, where evidence of some hundred rows is of that order
MOST_ROWS = 800  # of which the evidence is taken
LENGTHSCALE_SD, VARIANCE_SD, NOISE_SD = 1.5, 3.0, 3.0
STARTS = (0.05, 1e-3)  # of σ²
SAME = 0.2  # difference of log σ², up to which two maxima are one
VARIANCES = {ArcCosine: 0.4, ScaleKernel: 1.0}  # v₀
JITTER = 1e-8  # relative to the variance: where it would be added only now and then, the evidence would have steps
FARTHEST = 6.0  # robust standard deviations from the median


def arc_cosine(D: int) -> Kernel:
    """Of functions that are made of planes, which they follow far beyond the data."""
    kernel = ArcCosine(D)
    kernel.variance = VARIANCES[ArcCosine]
    return kernel.double()


def matern(D: int) -> Kernel:
    """Of functions that forget: Matérn-5/2 with a lengthscale for each column."""

    def positive() -> Positive:
        return Positive(transform=torch.exp, inv_transform=torch.log)

    base = MaternKernel(2.5, ard_num_dims=D, lengthscale_constraint=positive())
    base.lengthscale = D**0.5
    kernel = ScaleKernel(base, outputscale_constraint=positive())
    kernel.outputscale = VARIANCES[ScaleKernel]
    return kernel.double()


class Maximum(NamedTuple):
    """One of the evidence.

    Attributes:
        kernel: With the hyper-parameters there.
        noise: σ².
        log_evidence: With priors.
    """

    kernel: Kernel
    noise: float
    log_evidence: float


def evidence_maxima(
    kernel: Kernel, X: Float64[Tensor, "N D"], y: Float64[Tensor, "N P"], most_rows: int = MOST_ROWS
) -> list[Maximum]:
    """Where the evidence, of some rows all over the data, is largest: one or two places, the higher first.

    With much noise it is climbed with half of these rows first, and with all from there: few show what is smooth. A
    maximum without noise may not be one with fewer rows.

    Args:
        kernel: Where the climb begins; it stays as it is.
        X: Inputs.
        y: Targets.
        most_rows: Of which it is taken at most.
    """
    y, N, centre = without_outliers(y), len(X), _lengthscales(kernel).detach().log()
    few, most = slice(None, None, -(-2 * N // most_rows)), slice(None, None, -(-N // most_rows))
    noisy, quiet = (Maximum(copy.deepcopy(kernel), noise, -inf) for noise in STARTS)
    if few != most:
        noisy = _climb(noisy, X[few], y[few], centre, NUM_STEPS)
    found = [_climb(noisy, X[most], y[most], centre, NUM_STEPS), _climb(quiet, X[most], y[most], centre, NUM_STEPS)]
    found.sort(key=attrgetter("log_evidence"), reverse=True)
    higher, lower = found
    return [higher] if abs(log(higher.noise / lower.noise)) < SAME else found


def without_outliers(y: Float64[Tensor, "N P"]) -> Float64[Tensor, "N P"]:
    """Targets, no farther than six robust standard deviations from their median."""
    lower, median, upper = y.quantile(y.new_tensor([0.25, 0.5, 0.75]), dim=0)
    spread = (upper - lower) / 1.349
    spread = torch.where(spread > 0, spread, y.std(0, correction=0))
    return y.clamp(median - FARTHEST * spread, median + FARTHEST * spread)


def _climb(
    start: Maximum, X: Float64[Tensor, "N D"], y: Float64[Tensor, "N P"], centre: Tensor, num_steps: int
) -> Maximum:
    """Changes the kernel in place; log ℓ is a priori about `centre`."""
    kernel = start.kernel
    log_noise = torch.tensor(log(start.noise), dtype=X.dtype, device=X.device, requires_grad=True)
    v0, zonal = VARIANCES[type(kernel)], isinstance(kernel, ZonalKernel)
    eye = torch.eye(len(X), dtype=X.dtype, device=X.device)

    def objective() -> Tensor:
        K = kernel(X).to_dense()
        K = K + (log_noise.exp() + JITTER * K.diagonal().mean().detach()) * eye
        variance = kernel.variance if zonal else kernel.outputscale
        prior = _normal(_lengthscales(kernel).log(), centre, LENGTHSCALE_SD)
        prior = prior + _normal(variance.log(), log(v0), VARIANCE_SD) + _normal(log_noise, -3.0, NOISE_SD)
        return LogDensity.apply(y, K) + prior

    maximise([*kernel.parameters(), log_noise], objective, num_steps, tolerance=TOLERANCE)
    with torch.no_grad():
        return Maximum(kernel, log_noise.exp().item(), objective().item())


def _lengthscales(kernel: Kernel) -> Tensor:
    base: Any = kernel if isinstance(kernel, ZonalKernel) else kernel.base_kernel
    return base.lengthscale


def _normal(x: Tensor, mean: Tensor | float, sd: float) -> Tensor:
    """The log density of N(mean, sd²), but for a constant."""
    return -0.5 * ((x - mean) / sd).square().sum()
