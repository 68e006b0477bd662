"""E_q(f)[log p(y | f)] for any gpytorch likelihood and Gaussian marginals q(f)."""

import torch
from gpytorch.likelihoods import GaussianLikelihood, Likelihood, SoftmaxLikelihood
from gpytorch.likelihoods.likelihood import _OneDimensionalLikelihood
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Distribution, Normal

from actgp.autocast import full_precision
from actgp.likelihoods.contaminated import ContaminatedGaussianLikelihood, contaminated_expectation
from actgp.likelihoods.gaussian import gaussian_expectation

NUM_SAMPLES = 32


@full_precision
def expected_log_prob(
    likelihood: Likelihood,
    y: Tensor,
    mean: Float[Tensor, "*batch N P"],
    variance: Float[Tensor, "*batch N P"],
    relative: Float[Tensor, "*batch N 1"] | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*batch N"]:
    """E[log p(y_i | f_i)], f_i ~ N(mean_i, diag variance_i).

    In closed form for Gaussian noise, by Gauss–Hermite quadrature for likelihoods of one latent function, by sampling
    (reparametrised, with `generator`) for the others. For Gaussian noise with outliers a bound from below, in closed
    form too (`contaminated_expectation`).

    Args:
        likelihood: Any gpytorch likelihood.
        y: As `targets` gives it: [N, P] values, or [N] labels.
        mean: Means of q(f).
        variance: Variances of q(f).
        relative: The relative noise, where noise varies (`relative_noise`).
        generator: Source of randomness where sampling is needed.
    """
    if isinstance(likelihood, ContaminatedGaussianLikelihood):
        return contaminated_expectation(likelihood, y, mean, variance, relative).sum(-1)
    if isinstance(likelihood, GaussianLikelihood):
        return gaussian_expectation(y, mean, variance, likelihood.noise)
    if isinstance(likelihood, _OneDimensionalLikelihood):
        log_probs: Tensor = likelihood.expected_log_prob(y, Normal(mean, variance.sqrt()))  # [*batch, N, P]
        return log_probs.sum(-1)
    f = sample_latent(mean, variance, NUM_SAMPLES, generator)  # [S, *batch, N, P]
    return conditional_log_prob(likelihood, f, y).mean(0)


def sample_latent(
    mean: Float[Tensor, "*batch N P"],
    variance: Float[Tensor, "*batch N P"],
    num_samples: int,
    generator: torch.Generator | None,
) -> Float[Tensor, "S *batch N P"]:
    """Reparametrised draws from independent Gaussians."""
    noise = torch.randn(num_samples, *mean.shape, dtype=mean.dtype, device=mean.device, generator=generator)
    return mean + variance.sqrt() * noise


def conditional(likelihood: Likelihood, f: Float[Tensor, "*batch N P"]) -> Distribution:
    """p(y | f), with batch shape [*batch, N] for labels and [*batch, N, P] for values."""
    if isinstance(likelihood, SoftmaxLikelihood):
        # gpytorch takes [.., F, F] for its old transposed layout: so a row at a time, or, for a single feature, twice.
        rows = f.unsqueeze(-2)  # [.., N, 1, F]
        given = likelihood(torch.cat([rows, rows], -2) if f.shape[-1] == 1 else rows)
        return torch.distributions.Categorical(logits=given.logits[..., 0, :])
    distribution: Distribution = likelihood(f)
    return distribution


@full_precision
def conditional_log_prob(
    likelihood: Likelihood, f: Float[Tensor, "*batch N P"], y: Tensor
) -> Float[Tensor, "*batch N"]:
    """Log p(y_i | f_i), summed over outputs."""
    log_probs: Tensor = conditional(likelihood, f).log_prob(y)
    return log_probs.sum(-1) if y.ndim == 2 else log_probs
