"""Gaussian noise, y = f + noise, with outliers or without: all that follows from it being a mixture of C normals.

    p(y | f) = Σ_c w_c N(y; f, σ_c²)

C is 1 for gpytorch's `GaussianLikelihood` and 2 with outliers (`contaminated`). For f ~ N(μ, v) both
terms that training needs are of the form log Σ_c w_c exp(−½ (log 2πτ_c + s/τ_c)):

    log p(y)          s = (y − μ)²,       τ_c = v + σ_c²
    E[log p(y | f)]   s = (y − μ)² + v,   τ_c = σ_c²

The second is exact for C = 1 and else a bound from below. It is that of a model with an indicator c of its own for each
y, of being an outlier, and the best q(c):

    E[log Σ_c w_c p_c(y | f)] ≥ max_q Σ_c q_c (E[log p_c(y | f)] + log w_c/q_c) = log Σ_c w_c exp E[log p_c(y | f)]
"""

from abc import abstractmethod
from functools import reduce
from math import log, pi
from typing import Never, final

import torch
from gpytorch.likelihoods import GaussianLikelihood
from jaxtyping import Float
from torch import Generator, Tensor

from actgp.autocast import full_precision
from actgp.gpytorch_names import GaussianNoise
from actgp.likelihoods.adapter import Latent, LikelihoodAdapter, Moments, NoiseParameters, adapter_of
from actgp.likelihoods.checked import columns, supported

NODES, FARTHEST = 2_001, 10.0  # of an integral over noise: how many, up to how many standard deviations
BISECTIONS, FIRST_BISECTIONS = 60, 24
NEWTON_STEPS, CLOSE = 4, 1e-8  # of a quantile; the last of these, in standard deviations, and the next is its square

NoiseMixture = tuple[tuple[float, Float[Tensor, "*rows 1"]], ...]  # weight and variance of each normal


class NoiseAdapter(LikelihoodAdapter):
    """Gaussian noise as a mixture of normals."""

    squared_error = True

    @abstractmethod
    def noise_mixture(self, relative: Float[Tensor, "*rows 1"] | None = None) -> NoiseMixture:
        """Weights w_c and variances σ_c², of noise without outliers first.

        Args:
            relative: r, the relative noise of each row; without it, as where noise is the same everywhere, variances
                are [1].
        """

    def check_supported(self, num_outputs: int | None, input_dim: int | None) -> None:
        noise, slopes = self.likelihood.noise, self.noise_parameters().slopes
        if noise.numel() != 1:
            raise ValueError(
                f"Gaussian noise must be one number, got {noise.numel()}; leave out batch_shape, "
                "and use one model for each output that has noise of its own"
            )
        if not noise.item() > 0:
            raise ValueError(
                f"Gaussian noise must be above zero, got {noise.item():.3g}; give noise_constraint a lower "
                "bound of at least zero, e.g. gpytorch.constraints.Interval(1e-6, 0.1)"
            )
        if slopes is not None and input_dim not in (None, len(slopes)):
            raise ValueError(
                f"input_dim of the likelihood must be that of the last layer, {input_dim}, got {len(slopes)}; make "
                "them agree, or leave it out, for noise that is the same everywhere"
            )

    def outcomes(self, y: Tensor, num_outputs: int, dtype: torch.dtype) -> Tensor:
        return columns(y, num_outputs, dtype)

    def noise_variance(self, relative: Float[Tensor, "*rows 1"] | None = None) -> Float[Tensor, "*rows"]:
        return torch.stack([w * noise for w, noise in self.noise_mixture(relative)]).sum(0).squeeze(-1)

    @full_precision
    def expected_log_prob(self, y: Tensor, latent: Latent, generator: Generator | None = None) -> Tensor:
        """Exact for a single normal, else a bound from below."""
        squares = (y - latent.mean).square() + latent.variance
        terms = [log_term(w, squares, noise) for w, noise in self.noise_mixture(latent.relative)]
        return reduce(torch.logaddexp, terms).sum(-1)

    @full_precision
    def log_marginal(self, y: Tensor, latent: Latent, generator: Generator | None = None) -> Tensor:
        """Exact."""
        squares = (y - latent.mean).square()
        terms = [log_term(w, squares, latent.variance + noise) for w, noise in self.noise_mixture(latent.relative)]
        return reduce(torch.logaddexp, terms).sum(-1)

    @full_precision
    def fisher_factors(self, f: Float[Tensor, "N P"]) -> Float[Tensor, "P N P"]:
        """r_p = e_p / σ for one normal; less with outliers."""
        root = f.new_tensor(noise_information(self.noise_mixture())).sqrt()
        return torch.diag_embed(root.expand(f.shape)).movedim(1, 0)

    def moments(self, latent: Latent) -> Moments:
        mean, variance, relative = latent
        noise = self.noise_variance(relative).unsqueeze(-1)  # [1], or [S, N, 1]
        spread = mean.var(0, correction=0)
        return Moments(mean.mean(0), noise.expand_as(mean).mean(0), variance.mean(0) + spread)

    def quantiles(self, levels: Float[Tensor, " Q"], latent: Latent) -> Float[Tensor, "Q N P"]:
        components = self.normal_components(latent)
        return torch.stack([mixture_quantile(*components, p) for p in levels])

    def normal_components(
        self, latent: Latent
    ) -> tuple[Float[Tensor, " K"], Float[Tensor, "K N P"], Float[Tensor, "K N P"]]:
        mean, variance, relative = latent
        weights, noises = zip(*self.noise_mixture(relative), strict=True)
        return (
            mean.new_tensor(weights).repeat_interleave(len(mean)) / len(mean),
            mean.repeat(len(weights), 1, 1),
            torch.cat([variance + noise for noise in noises]),
        )


@adapter_of.register(GaussianLikelihood)
@final
class GaussianAdapter(NoiseAdapter):
    """gpytorch's `GaussianLikelihood`: a single normal."""

    def noise_mixture(self, relative: Float[Tensor, "*rows 1"] | None = None) -> NoiseMixture:
        return ((1.0, self.likelihood.noise),)

    def noise_parameters(self) -> NoiseParameters:
        return NoiseParameters(self.likelihood.raw_noise)


@adapter_of.register(GaussianNoise)
def _refuse(likelihood: GaussianNoise) -> Never:
    raise TypeError(
        "Gaussian noise must be the same for all rows, or vary by slopes that are learnt, got "
        f"{type(likelihood).__name__}; use gpytorch.likelihoods.GaussianLikelihood, or "
        "actgp.ContaminatedGaussianLikelihood(input_dim=…)"
    )


def gaussian(likelihood: object) -> GaussianLikelihood:
    """Returns a likelihood of one normal, for which regression has a closed form; a new one for None."""
    if likelihood is None:
        return GaussianLikelihood()
    if not isinstance(likelihood, GaussianLikelihood) or type(adapter_of(likelihood)) is not GaussianAdapter:
        raise TypeError(
            f"likelihood must be a gpytorch GaussianLikelihood, got {type(likelihood).__name__}; "
            "use SVGP, which takes other likelihoods"
        )
    supported(likelihood)
    return likelihood


def log_term(weight: float, squares: Float[Tensor, "*batch"], variance: Float[Tensor, "*#batch"]) -> Tensor:
    """Log w − ½ (log 2πτ + s/τ)."""
    return -0.5 * (variance.log() + (log(2 * pi) - 2 * log(weight)) + squares / variance)


def noise_information(mixture: NoiseMixture) -> float:
    """∫ (p′)² / p dy for noise of density p: 1/σ² without outliers; with them, by the trapezoidal rule."""
    weights, variances = torch.tensor([(w, v.item()) for w, v in mixture], dtype=torch.float64).unbind(-1)  # [C]
    narrow, wide = variances[0].sqrt(), variances[-1].sqrt()
    if len(mixture) == 1:
        return 1 / variances.item()
    x = torch.linspace(-1.0, 1.0, NODES, dtype=torch.float64).unsqueeze(-1) * torch.asinh(FARTHEST * wide / narrow)
    y, dy = narrow * x.sinh(), x.cosh()  # [Q, 1]: nodes lie closest where noise is narrow
    parts = weights / variances.sqrt() * torch.exp(-0.5 * y.square() / variances) * dy  # [Q, C], but for a factor
    density, slope = parts.sum(-1), (y / variances * parts).sum(-1)
    return (slope.square() / density).sum().div(density.sum()).item()


def mixture_quantile(
    weights: Float[Tensor, " K"], mean: Float[Tensor, "K N P"], variance: Float[Tensor, "K N P"], p: Tensor
) -> Float[Tensor, "N P"]:
    """The p-quantile of a mixture of Gaussians, to round-off, by bisection.

    In double precision, bisection begins in single, which is much faster, and Newton's method goes on from there.
    """
    weights, sd = weights.reshape(-1, 1, 1), variance.sqrt()
    if sd.dtype != torch.float64:
        return _bisected(weights, mean, sd, p, BISECTIONS)
    centre = mean[0]  # of differences that single precision can tell apart
    x = centre + _bisected(weights.float(), (mean - centre).float(), sd.float(), p.float(), FIRST_BISECTIONS).double()
    density, step = weights / (sd * (2 * pi) ** 0.5), x
    for _ in range(NEWTON_STEPS):
        z = (x - mean) / sd
        excess = (weights * torch.special.ndtr(z)).sum(0) - p
        step = excess / (density * (-0.5 * z.square()).exp()).sum(0)
        x = x - step
    unsure = ~(step.abs() <= CLOSE * sd.amin(0))
    if unsure.any():
        x[unsure] = _bisected(weights[..., 0], mean[:, unsure], sd[:, unsure], p, BISECTIONS)
    return x


def _bisected(weights: Tensor, mean: Tensor, sd: Tensor, p: Tensor, times: int) -> Tensor:
    """Halves the interval between the components' own quantiles."""
    quantiles = mean + sd * torch.special.ndtri(p)
    low, high = quantiles.amin(0), quantiles.amax(0)
    for _ in range(times):
        middle = (low + high) / 2
        below = (weights * torch.special.ndtr((middle - mean) / sd)).sum(0) < p
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2
