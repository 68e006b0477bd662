"""A GP of one layer, with noise that varies and has outliers, in closed form but for a few numbers.

    y_i = μ(h_i) + g(h_i) + ε_i,     g ~ GP(0, k),     ε_i ~ N(0, σ² ρ(h_i)), one in so many with ω² more

with μ zero, or carried by h. For noise variances σ²/W_i the posterior of g is a Bayesian linear regression, and each
row is predicted without itself at no cost (`training.regression`). So, in turns,

1. σ², φ, ρ and ω² are those under which the left-out predictions N(f_i, φ c_i) are most probable. φ corrects the
   variance of g, as a whole; a few weak priors keep what is plausible.
2. W_i = σ² E[1/σ_i²], over whether y_i is an outlier or not, given its left-out prediction: outliers no longer pull.

In the end variances are multiplied by 1 + 4/N for the numbers that were fitted. The log densities of the left-out rows
say what the model is worth beside others.
"""

from math import log
from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp.layers.variational import unexplained
from actgp.likelihoods import Latent, adapter_of
from actgp.likelihoods.gaussian import log_term
from actgp.models import DeepGP
from actgp.training.calibrate import free_variance, rounding_step, set_noise, set_outlier_noise, set_variance
from actgp.training.lbfgs import maximise
from actgp.training.regression import Given, leave_one_out, posterior, regress

ROUNDS = 3
NUM_STEPS = 60  # of L-BFGS
LEVEL_SD, VARIANCE_SD, OUTLIER_SD, SLOPE_SD = 1.0, 0.5, 1.0, 0.3  # of the priors of logarithms, and of slopes
OUTLIER_RATIO = 9.0  # of variances, where its prior is centred
PARAMETERS = 4
CONFUSED = 0.2  # the part of the rows that are nearer to another value, from which on targets are taken for rounded
SMALLEST_SIZE = 1e-6


class Left(NamedTuple):
    """Each row as the others predict it: means and variances of μ + g."""

    mean: Float64[Tensor, "N P"]
    variance: Float64[Tensor, "N P"]


class LeftOut(NamedTuple):
    """How well rows are predicted by the others.

    Attributes:
        densities: The log density of each row.
        error: The mean square of y − f.
    """

    densities: Float64[Tensor, " N"]
    error: float


class Noise(NamedTuple):
    """What step 1 finds: σ², φ, ω², and slopes."""

    level: Tensor
    phi: Tensor
    outliers: Tensor
    slopes: Tensor


@torch.enable_grad()
def fit_one_layer(model: DeepGP, h: Float64[Tensor, "N H"], y: Float64[Tensor, "N P"], noise: float) -> LeftOut:
    """Fits q(u), noise, and the variance of the kernel.

    Args:
        model: Of one layer, with a `ContaminatedGaussianLikelihood` that varies, in float64.
        h: What the layer is given.
        y: Targets.
        noise: σ² to begin with.
    """
    (layer,), likelihood = model.gp_layers, model.likelihood
    with torch.no_grad():
        z, mu = layer.split(h)
        A = layer.whiten(h)
        rest = unexplained(A, layer.kernel(z, diag=True))
        r = y if mu is None else y - mu
        size = h.square().mean(0).sqrt().clamp_min(SMALLEST_SIZE)
    W = torch.ones_like(rest)
    # With less noise than its bound, leaving a row out would be a difference of numbers that agree in all digits.
    bound = max(model.likelihood.noise_covar.raw_noise_constraint.lower_bound.item(), 0.0)
    level = torch.tensor(max(noise, bound), dtype=h.dtype, device=h.device)
    for turn in range(ROUNDS + 1):
        with torch.no_grad():
            row = Given(A, r, W)
            regression = regress([row])
            one = torch.ones_like(level)
            mean, variance = leave_one_out(regression, row, A @ regression.Q, one, level)
            left = Left(mean, (variance + rest).unsqueeze(-1).expand_as(mean))
            bound = max(bound, _rounding(y, (r - mean).abs()))
        found = fit_noise(model, h / size, r, left, level, bound)
        if turn < ROUNDS:
            level = found.level
            W = _weights(found, likelihood.share, h / size, r, left)
    with torch.no_grad():
        c = 1 + PARAMETERS / len(h)
        m, S = posterior(regression, one, level)
        phi = found.phi * c
        variance_of_kernel = free_variance(layer)
        assert variance_of_kernel is not None
        set_variance(layer, variance_of_kernel * phi)
        layer.q.assign(m / phi.sqrt(), S.expand(m.shape[1], -1, -1))
        set_noise(model, found.level.item() * c)
        set_outlier_noise(model, found.outliers.item() * c)
        likelihood.slopes.copy_(found.slopes / size)
        adapter = adapter_of(likelihood)
        latent = Latent(left.mean, phi * left.variance, adapter.relative_noise(h))
        return LeftOut(adapter.log_marginal(r, latent), (r - left.mean).square().mean().item())


def fit_noise(
    model: DeepGP,
    h: Float64[Tensor, "N H"],
    r: Float64[Tensor, "N P"],
    left: Left,
    level: Tensor,
    bound: float,
) -> Noise:
    """Step 1, for columns of h whose mean square is one; σ² starts at `level`, and stays above `bound`."""
    share = model.likelihood.share
    a = torch.zeros(3 + h.shape[1], dtype=h.dtype, device=h.device)
    a[2] = log(OUTLIER_RATIO)
    a.requires_grad_()

    def noise() -> Noise:
        s, phi, slopes = bound + level * a[0].exp(), a[1].exp(), a[3:]
        width = (phi * left.variance + s * relative(slopes, h)).mean()
        return Noise(s, phi, a[2].exp() * width, slopes)

    def objective() -> Tensor:
        found = noise()
        usual, outlier = _terms(found, share, h, r, left)
        total = torch.logaddexp(usual, outlier).sum() - 0.5 * (a[0] / LEVEL_SD).square()
        total = total - 0.5 * (a[1] / VARIANCE_SD).square() - 0.5 * ((a[2] - log(OUTLIER_RATIO)) / OUTLIER_SD).square()
        return total - 0.5 * (found.slopes / SLOPE_SD).square().sum()

    maximise([a], objective, NUM_STEPS)
    with torch.no_grad():
        return noise()


def relative(slopes: Float64[Tensor, " H"], h: Float64[Tensor, "N H"]) -> Float64[Tensor, "N 1"]:
    """ρ, as `ContaminatedGaussianLikelihood` has it."""
    return (4 * (h @ slopes / 4).tanh()).exp().unsqueeze(-1)


def _terms(found: Noise, share: float, h: Tensor, r: Tensor, left: Left) -> tuple[Tensor, Tensor]:
    """Log densities of r as no outlier and as one, with their weights, [N, P]."""
    usual = found.phi * left.variance + found.level * relative(found.slopes, h)
    squares = (r - left.mean).square()
    return log_term(1 - share, squares, usual), log_term(share, squares, usual + found.outliers)


@torch.no_grad()
def _weights(found: Noise, share: float, h: Tensor, r: Tensor, left: Left) -> Float64[Tensor, " N"]:
    """Step 2; several outputs share the weights of a row."""
    usual, outlier = _terms(found, share, h, r, left)
    is_outlier = (outlier - usual).sigmoid()
    narrow = found.level * relative(found.slopes, h)
    precision = (1 - is_outlier) / narrow + is_outlier / (narrow + found.outliers)
    return (found.level * precision).mean(1)


def _rounding(y: Float64[Tensor, "N P"], errors: Float64[Tensor, "N P"]) -> float:
    """The variance δ²/12 of targets that are rounded to steps of δ and cannot be told apart; 0 for others."""
    step = min(rounding_step(column) for column in y.T)
    confused = (errors > step / 2).double().mean().item() > CONFUSED
    return step**2 / 12 if step > 0 and confused else 0.0
