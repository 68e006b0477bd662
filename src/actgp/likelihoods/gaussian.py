"""Gaussian noise about f: all that follows from y | f being a mixture of normals, and the plain one of them.

p(y | f) = Σ_c w_c N(y; f, σ_c²)
"""

from abc import abstractmethod
from math import log, pi
from typing import Never, final

import torch
from gpytorch.likelihoods import GaussianLikelihood
from jaxtyping import Float
from torch import Generator, Tensor
from torch.distributions import Normal

from actgp.autocast import full_precision
from actgp.likelihoods.adapter import Latent, LikelihoodAdapter, Moments, NoiseParameters, adapter_of, supported
from actgp.likelihoods.gpytorch_names import GaussianNoise
from actgp.likelihoods.targets import columns

NODES, FARTHEST = 2_001, 10.0  # of an integral over noise: how many, up to how many standard deviations
BISECTIONS = 60


class NormalNoiseAdapter(LikelihoodAdapter):
    """Noise that is a mixture of normals, so that predictions are, too: with outliers or without.

    The likelihood is gpytorch's `GaussianLikelihood`, or derives from it.
    """

    squared_error = True

    @abstractmethod
    def noise_mixture(
        self, relative: Float[Tensor, "*rows 1"] | None = None
    ) -> tuple[Float[Tensor, " C"], Float[Tensor, "*rows C"]]:
        """Log-weights w_c and variances σ_c²; the latter are [C] where noise is the same everywhere."""

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

    @full_precision
    def fisher_factors(self, f: Float[Tensor, "N P"]) -> Float[Tensor, "P N P"]:
        """R_p = e_p / σ for one normal; less with outliers, by quadrature."""
        information = noise_information(*self.noise_mixture())
        roots = f.new_tensor(information).sqrt().expand(f.shape)
        return torch.diag_embed(roots).movedim(1, 0)

    def noise_variance(self, relative: Float[Tensor, "*rows 1"] | None = None) -> Float[Tensor, "*rows"]:
        log_weights, variances = self.noise_mixture(relative)
        return variances @ log_weights.exp()

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
        log_weights, noises = self.noise_mixture(relative)  # [C]; [C], or [S, N, C]
        return (
            log_weights.exp().repeat_interleave(len(mean)) / len(mean),
            mean.repeat(len(log_weights), 1, 1),
            torch.cat([variance + noise.unsqueeze(-1) for noise in noises.unbind(-1)]),
        )


@adapter_of.register(GaussianLikelihood)
@final
class GaussianAdapter(NormalNoiseAdapter):
    """p(y | f) = N(y; f, σ²)."""

    def noise_mixture(
        self, relative: Float[Tensor, "*rows 1"] | None = None
    ) -> tuple[Float[Tensor, " 1"], Float[Tensor, " 1"]]:
        noise = self.likelihood.noise
        return noise.new_zeros(1), noise

    def noise_parameters(self) -> NoiseParameters:
        return NoiseParameters(self.likelihood.raw_noise)

    @full_precision
    def expected_log_prob(self, y: Tensor, latent: Latent, generator: Generator | None = None) -> Tensor:
        """−½ Σ_p (log 2πσ² + ((y − mean)² + variance) / σ²)."""
        noise, squares = self.likelihood.noise, (y - latent.mean).square() + latent.variance
        return -0.5 * (log(2 * pi) + noise.log() + squares / noise).sum(-1)

    @full_precision
    def log_marginal(self, y: Tensor, latent: Latent, generator: Generator | None = None) -> Tensor:
        """Log N(y; mean, variance + σ²)."""
        sd = (latent.variance + self.likelihood.noise).sqrt()
        return Normal(latent.mean, sd, validate_args=False).log_prob(y).sum(-1)


@adapter_of.register(GaussianNoise)
def _refuse(likelihood: GaussianNoise) -> Never:
    raise TypeError(
        "Gaussian noise must be the same for all rows, or vary by slopes that are learnt, got "
        f"{type(likelihood).__name__}; use gpytorch.likelihoods.GaussianLikelihood, or "
        "actgp.ContaminatedGaussianLikelihood(input_dim=…)"
    )


def gaussian(likelihood: object) -> GaussianLikelihood:
    """Returns a Gaussian likelihood, the only one with a closed form; a new one for None."""
    if likelihood is None:
        return GaussianLikelihood()
    if adapter_of.dispatch(type(likelihood)) is not GaussianAdapter:
        raise TypeError(
            f"likelihood must be a gpytorch GaussianLikelihood, got {type(likelihood).__name__}; "
            "use SVGP, which takes other likelihoods"
        )
    supported(likelihood)
    return likelihood


def noise_information(log_weights: Float[Tensor, " C"], variances: Float[Tensor, " C"]) -> float:
    """∫ (p′)² / p dy for noise of density p: 1/σ² without outliers; with them, by the trapezoidal rule."""
    log_weights, variances = (values.detach().double().cpu() for values in (log_weights, variances))
    if len(variances) == 1:
        return 1 / variances.item()
    x = torch.linspace(-1.0, 1.0, NODES, dtype=torch.float64).unsqueeze(-1) * torch.asinh(
        FARTHEST * (variances[-1] / variances[0]).sqrt()
    )
    y, dy = variances[0].sqrt() * x.sinh(), x.cosh()  # [Q, 1]: nodes lie closest where noise is narrow
    parts = torch.exp(log_weights - 0.5 * (variances.log() + y.square() / variances)) * dy  # [Q, C], but for a factor
    density, slope = parts.sum(-1), (y / variances * parts).sum(-1)
    return (slope.square() / density).sum().div(density.sum()).item()


def mixture_quantile(
    weights: Float[Tensor, " K"], mean: Float[Tensor, "K N P"], variance: Float[Tensor, "K N P"], p: Tensor
) -> Float[Tensor, "N P"]:
    """The p-quantile of a mixture of Gaussians, by bisection between the components' own quantiles."""
    sd, weights = variance.sqrt(), weights.reshape(-1, 1, 1)
    quantiles = mean + sd * torch.special.ndtri(p)
    low, high = quantiles.amin(0), quantiles.amax(0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        below = (weights * torch.special.ndtr((middle - mean) / sd)).sum(0) < p
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2
