"""log ∫ p(y | f) q(f) df for Gaussian marginals q(f): what a prediction is scored by, and can be trained on."""

from math import log

import torch
from gpytorch.likelihoods import BernoulliLikelihood, GaussianLikelihood, Likelihood
from gpytorch.likelihoods.likelihood import _OneDimensionalLikelihood
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Normal

from actgp.autocast import full_precision
from actgp.likelihoods.contaminated import ContaminatedGaussianLikelihood, contaminated_marginal
from actgp.likelihoods.expectation import NUM_SAMPLES, conditional, conditional_log_prob, sample_latent

QUADRATURE_POINTS = 61
QUADRATURE_RANGE = 6.0  # standard deviations


@full_precision
def log_marginal(
    likelihood: Likelihood,
    y: Tensor,
    mean: Float[Tensor, "*batch N P"],
    variance: Float[Tensor, "*batch N P"],
    relative: Float[Tensor, "*batch N 1"] | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*batch N"]:
    """The logarithm of p(y_i) when f_i ~ N(mean_i, diag variance_i), summed over outputs; differentiable.

    In closed form for Gaussian noise, with outliers or without, and the probit, on a grid for other likelihoods of one
    latent function, by sampling (reparametrised, with `generator`) for those of several.

    Args:
        likelihood: Any gpytorch likelihood.
        y: As `targets` gives it: [N, P] values, or [N] labels.
        mean: Means of q(f).
        variance: Variances of q(f).
        relative: The relative noise, where noise varies (`relative_noise`).
        generator: Source of randomness where sampling is needed.
    """
    if isinstance(likelihood, ContaminatedGaussianLikelihood):
        return contaminated_marginal(likelihood, y, mean, variance, relative).sum(-1)
    if isinstance(likelihood, GaussianLikelihood):
        return Normal(mean, (variance + likelihood.noise).sqrt(), validate_args=False).log_prob(y).sum(-1)
    if isinstance(likelihood, BernoulliLikelihood):
        # ∫ Φ(f) N(f; μ, v) df = Φ(μ / √(1+v)), and 1 − Φ(x) = Φ(−x)
        return torch.special.log_ndtr((2 * y - 1) * mean / (1 + variance).sqrt()).sum(-1)
    if isinstance(likelihood, _OneDimensionalLikelihood):
        x = torch.linspace(-QUADRATURE_RANGE, QUADRATURE_RANGE, QUADRATURE_POINTS, dtype=torch.float64).to(mean)
        x = x.reshape(-1, *[1] * mean.ndim)  # [Q, 1, …]
        log_probs: Tensor = conditional(likelihood, mean + variance.sqrt() * x).log_prob(y)  # [Q, *batch, N, P]
        return (log_probs + (-0.5 * x**2).log_softmax(0)).logsumexp(0).sum(-1)
    f = sample_latent(mean, variance, NUM_SAMPLES, generator)
    return conditional_log_prob(likelihood, f, y).logsumexp(0) - log(NUM_SAMPLES)
