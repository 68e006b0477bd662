"""Hyper-parameters of an exact GP, by its evidence: what a GP of one layer begins with.

    log p(y) = Σ_p log N(y_p; 0, K),     K = k(X, X) + σ² I,

for P outputs that share K. Lengthscales are found a posteriori,

    log ℓ_d ~ N(c, 1.5²),     log v ~ N(log v₀, 3²),     log σ² ~ N(−3, 3²),

with c where inputs of unit spread are told apart: columns that say nothing would otherwise be fitted to noise. The
evidence may have several maxima, that of a rough function without noise and that of a smooth one with it; it is climbed
from two sides, and the higher one taken. A normal density knows of no outliers: for the evidence, targets more than six
robust standard deviations from their median are brought to that distance.
"""

import copy
from math import log
from operator import itemgetter
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
MOST_ROWS = 800  # of which the evidence is taken
LENGTHSCALE_SD, VARIANCE_SD, NOISE_SD = 1.5, 3.0, 3.0
STARTS = (0.05, 1e-3)  # of σ²
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


class Evidence(NamedTuple):
    """What was found beside the kernel.

    Attributes:
        noise: σ².
        log_evidence: With priors.
    """

    noise: float
    log_evidence: float


def maximise_evidence(kernel: Kernel, X: Float64[Tensor, "N D"], y: Float64[Tensor, "N P"]) -> Evidence:
    """Sets the kernel's hyper-parameters to those of the largest evidence, of at most 800 rows, all over the data."""
    stride = -(-len(X) // MOST_ROWS)
    X, y = X[::stride], without_outliers(y)[::stride]
    before, ends = copy.deepcopy(kernel.state_dict()), []
    for start in STARTS:
        kernel.load_state_dict(before)
        found = _climb(kernel, X, y, start)
        ends.append((found.log_evidence, found, copy.deepcopy(kernel.state_dict())))
    _, best, parameters = max(ends, key=itemgetter(0))
    kernel.load_state_dict(parameters)
    return best


def without_outliers(y: Float64[Tensor, "N P"]) -> Float64[Tensor, "N P"]:
    """Targets, no farther than six robust standard deviations from their median."""
    lower, median, upper = y.quantile(y.new_tensor([0.25, 0.5, 0.75]), dim=0)
    spread = (upper - lower) / 1.349
    spread = torch.where(spread > 0, spread, y.std(0, correction=0))
    return y.clamp(median - FARTHEST * spread, median + FARTHEST * spread)


def _climb(kernel: Kernel, X: Float64[Tensor, "N D"], y: Float64[Tensor, "N P"], noise: float) -> Evidence:
    log_noise = torch.tensor(log(noise), dtype=X.dtype, device=X.device, requires_grad=True)
    v0, zonal = VARIANCES[type(kernel)], isinstance(kernel, ZonalKernel)
    base: Any = kernel if zonal else kernel.base_kernel
    centre = base.lengthscale.detach().log()
    eye = torch.eye(len(X), dtype=X.dtype, device=X.device)

    def objective() -> Tensor:
        K = kernel(X).to_dense()
        K = K + (log_noise.exp() + JITTER * K.diagonal().mean().detach()) * eye
        variance = kernel.variance if zonal else kernel.outputscale
        prior = _normal(base.lengthscale.log(), centre, LENGTHSCALE_SD) + _normal(variance.log(), log(v0), VARIANCE_SD)
        return LogDensity.apply(y, K) + prior + _normal(log_noise, -3.0, NOISE_SD)

    maximise([*kernel.parameters(), log_noise], objective, NUM_STEPS)
    with torch.no_grad():
        return Evidence(log_noise.exp().item(), objective().item())


def _normal(x: Tensor, mean: Tensor | float, sd: float) -> Tensor:
    """The log density of N(mean, sd²), but for a constant."""
    return -0.5 * ((x - mean) / sd).square().sum()
