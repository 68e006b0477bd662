"""Gaussian noise with outliers: the contaminated normal distribution (Tukey, 1960).

    p(y | f) = (1 − ε) N(y; f, σ²) + ε N(y; f, σ² + ω²)

To Gaussian noise a value ten standard deviations away is all but impossible: it costs fifty nats, and bends functions
and noise. If one value in a hundred may be an outlier, with noise ten times as wide, it costs some seven, and pulls
little.
"""

from math import log, log1p, pi

import torch
from gpytorch.constraints import GreaterThan, Interval, Positive
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.priors import Prior
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Categorical, Distribution, MixtureSameFamily, Normal

from actgp import checks

SHARE = 0.01
SMALLEST_NOISE = 1e-6


class ContaminatedGaussianLikelihood(GaussianLikelihood):
    """Gaussian noise σ², to which a share of outliers adds noise ω²; both are learnt, the share is not.

    Args:
        noise_prior: Of σ², as gpytorch's.
        noise_constraint: Of σ², as gpytorch's; above 1e-6 by default.
        share: ε, what part of the values are outliers.

    Attributes:
        share: ε.
        noise: σ², of values that are no outliers.
        outlier_noise: ω², what outliers have in addition.

    Example:
        >>> import actgp
        >>> model = actgp.deep_gp(8, likelihood=actgp.ContaminatedGaussianLikelihood(share=0.05))
    """

    has_analytic_marginal = False  # it has one, but not a normal one

    def __init__(
        self, noise_prior: Prior | None = None, noise_constraint: Interval | None = None, *, share: float = SHARE
    ) -> None:
        super().__init__(noise_prior, GreaterThan(SMALLEST_NOISE) if noise_constraint is None else noise_constraint)
        self._share = checks.real(share, "share", example=SHARE)
        if not 0.0 < self._share < 1.0:
            raise ValueError(
                f"share must lie between 0 and 1, got {share}; use gpytorch's GaussianLikelihood where there are no "
                "outliers"
            )
        self.register_parameter("raw_outlier_noise", torch.nn.Parameter(torch.zeros(1)))
        self.register_constraint("raw_outlier_noise", Positive())

    @property
    def share(self) -> float:
        """ε."""
        return self._share

    @property
    def outlier_noise(self) -> Float[Tensor, " 1"]:
        noise: Tensor = self.raw_outlier_noise_constraint.transform(self.raw_outlier_noise)
        return noise

    @outlier_noise.setter
    def outlier_noise(self, value: float) -> None:
        noise = self.raw_outlier_noise.new_tensor(checks.positive(value, "outlier_noise"))
        self.initialize(raw_outlier_noise=self.raw_outlier_noise_constraint.inverse_transform(noise))

    def expected_log_prob(self, target: Tensor, input: Distribution, *args: object, **kwargs: object) -> Tensor:
        """A bound of E[log p(y_i | f_i)] from below (`contaminated_expectation`)."""
        return contaminated_expectation(self, target, input.mean, input.variance)

    def log_marginal(
        self, observations: Tensor, function_dist: Distribution, *args: object, **kwargs: object
    ) -> Tensor:
        """log p(y_i) for f_i of these means and variances."""
        return contaminated_marginal(self, observations, function_dist.mean, function_dist.variance)

    def marginal(self, function_dist: Distribution, *args: object, **kwargs: object) -> MixtureSameFamily:
        """p(y_i) for each i by itself."""
        return self._mixture(function_dist.mean, function_dist.variance)

    def forward(self, function_samples: Tensor, *args: object, **kwargs: object) -> MixtureSameFamily:
        """p(y | f)."""
        return self._mixture(function_samples, torch.zeros_like(function_samples))

    def _mixture(self, mean: Tensor, variance: Tensor) -> MixtureSameFamily:
        log_weights, noises = noise_mixture(self)
        total = variance.unsqueeze(-1) + noises  # [*batch, C]
        components = Normal(mean.unsqueeze(-1).expand_as(total), total.sqrt())
        return MixtureSameFamily(Categorical(logits=log_weights.expand_as(total)), components)


def contaminated_expectation(
    likelihood: ContaminatedGaussianLikelihood, y: Tensor, mean: Tensor, variance: Tensor
) -> Float[Tensor, "*batch"]:
    """A bound of E[log p(y | f)] from below.

    It is that of a model in which y has an indicator c of its own, of being an outlier, with the best q(c):

        E[log Σ_c w_c p_c(y | f)] ≥ max_q Σ_c q_c (E[log p_c(y | f)] + log w_c/q_c) = log Σ_c w_c exp E[log p_c(y | f)]
    """
    log_weights, noises = noise_mixture(likelihood)
    squares = ((y - mean).square() + variance).unsqueeze(-1) / noises  # [*batch, C]
    return (log_weights - 0.5 * (log(2 * pi) + noises.log() + squares)).logsumexp(-1)


def contaminated_marginal(
    likelihood: ContaminatedGaussianLikelihood, y: Tensor, mean: Tensor, variance: Tensor
) -> Float[Tensor, "*batch"]:
    """The logarithm of Σ_c w_c N(y; mean, variance + noise_c)."""
    log_weights, noises = noise_mixture(likelihood)
    total = variance.unsqueeze(-1) + noises  # [*batch, C]
    squares = (y - mean).square().unsqueeze(-1) / total
    return (log_weights - 0.5 * (log(2 * pi) + total.log() + squares)).logsumexp(-1)


def noise_mixture(likelihood: GaussianLikelihood) -> tuple[Float[Tensor, " C"], Float[Tensor, " C"]]:
    """Gaussian noise, with outliers or without, as a mixture of normals about f: log-weights and variances."""
    noise = likelihood.noise
    if not isinstance(likelihood, ContaminatedGaussianLikelihood):
        return torch.zeros_like(noise), noise
    log_weights = noise.new_tensor([log1p(-likelihood.share), log(likelihood.share)])
    return log_weights, torch.cat([noise, noise + likelihood.outlier_noise])


def noise_variance(likelihood: GaussianLikelihood) -> Float[Tensor, ""]:
    """Var[y | f], outliers included."""
    log_weights, variances = noise_mixture(likelihood)
    return log_weights.exp() @ variances
