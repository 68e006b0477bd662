"""Gaussian noise with outliers: the contaminated normal distribution (Tukey, 1960).

    p(y | f) = (1 − ε) N(y; f, σ²) + ε N(y; f, σ² + ω²)

To Gaussian noise a value ten standard deviations away is all but impossible: it costs fifty nats, and bends functions
and noise. If one value in a hundred may be an outlier, with noise ten times as wide, it costs some seven, and pulls
little.

Some inputs have more noise than others. σ² may follow what the last layer is given, h: with the lower bound b of σ²,

    σ²(h) = b + (σ² − b) r(h),     log r(h) = cᵀh, bent so that it stays between −4 and 4

in which σ² is the noise at h = 0, and r the relative noise. The network below has made of h what is easily told apart,
so that a linear function suffices; with skip connections it is one of x, too.
"""

from math import log, log1p, pi
from typing import Any, ClassVar, final

import torch
from gpytorch.constraints import GreaterThan, Interval, Positive
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.priors import Prior
from jaxtyping import Float
from torch import Generator, Tensor
from torch.distributions import Categorical, Distribution, MixtureSameFamily, Normal

from actgp import checks
from actgp.autocast import full_precision
from actgp.likelihoods.adapter import Latent, NoiseParameters, adapter_of
from actgp.likelihoods.gaussian import NormalNoiseAdapter
from actgp.persistence import Sizes, savable

SHARE = 0.01
SMALLEST_NOISE = 1e-6
LARGEST_EXPONENT = 4.0  # of the relative noise: it may grow and shrink by a factor of 55


@savable
class ContaminatedGaussianLikelihood(GaussianLikelihood):
    """Gaussian noise σ², to which a share of outliers adds noise ω²; both are learnt, the share is not.

    Models give the density functions of this library what noise depends on. gpytorch's own methods, `marginal` and the
    like, are not given it: theirs is the noise at h = 0.

    Args:
        noise_prior: Of σ², as gpytorch's.
        noise_constraint: Of σ², as gpytorch's; above 1e-6 by default. Noise that varies keeps to its lower bound only.
        share: ε, what part of the values are outliers.
        input_dim: H, how many inputs h the last layer has, for noise that depends on them; None for noise that is the
            same everywhere.

    Attributes:
        share: ε.
        noise: σ², of values that are no outliers; if it depends on h, at h = 0.
        outlier_noise: ω², what outliers have in addition.
        slopes: c, [H]: how the logarithm of σ² follows h; None if it does not.

    Example:
        >>> import actgp
        >>> model = actgp.deep_gp(8, likelihood=actgp.ContaminatedGaussianLikelihood(share=0.05, input_dim=8))
    """

    SIZES: ClassVar[Sizes] = {"slopes": ("input_dim",)}
    has_analytic_marginal = False  # it has one, but not a normal one

    def __init__(
        self,
        noise_prior: Prior | None = None,
        noise_constraint: Interval | None = None,
        *,
        share: float = SHARE,
        input_dim: int | None = None,
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
        slopes = None if input_dim is None else torch.zeros(checks.integer(input_dim, "input_dim", minimum=1))
        self.register_parameter("slopes", None if slopes is None else torch.nn.Parameter(slopes))

    def config(self) -> dict[str, Any]:
        """The arguments of its constructor, for files (`persistence`)."""
        return {"share": self.share, "input_dim": None if self.slopes is None else len(self.slopes)}

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

    def relative_noise(self, h: Float[Tensor, "*batch H"]) -> Float[Tensor, "*batch 1"] | None:
        """r(h), by which noise depends on the last layer's inputs; None if it does not."""
        if self.slopes is None:
            return None
        exponents = (h @ self.slopes.to(h.dtype)).unsqueeze(-1) / LARGEST_EXPONENT
        return (LARGEST_EXPONENT * exponents.tanh()).exp()

    def expected_log_prob(self, target: Tensor, input: Distribution, *args: object, **kwargs: object) -> Tensor:
        """A bound of E[log p(y_i | f_i)] from below (`mixture_expectation`)."""
        return mixture_expectation(target, input.mean, input.variance, *noise_mixture(self))

    def log_marginal(
        self, observations: Tensor, function_dist: Distribution, *args: object, **kwargs: object
    ) -> Tensor:
        """log p(y_i) for f_i of these means and variances."""
        return mixture_marginal(observations, function_dist.mean, function_dist.variance, *noise_mixture(self))

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


def noise_mixture(
    likelihood: ContaminatedGaussianLikelihood, relative: Float[Tensor, "*rows 1"] | None = None
) -> tuple[Float[Tensor, " 2"], Float[Tensor, "*rows 2"]]:
    """Log-weights and variances of noise without outliers and with them.

    Args:
        likelihood: The likelihood.
        relative: r, the relative noise of each row; by default, and where noise is the same everywhere, variances are
            [2].
    """
    noise = likelihood.noise
    if relative is not None:
        bound = likelihood.noise_covar.raw_noise_constraint.lower_bound.clamp_min(0.0)
        noise = bound + (noise - bound) * relative
    log_weights = noise.new_tensor([log1p(-likelihood.share), log(likelihood.share)])
    return log_weights, torch.cat([noise, noise + likelihood.outlier_noise], -1)


def mixture_expectation(y: Tensor, mean: Tensor, variance: Tensor, log_weights: Tensor, noises: Tensor) -> Tensor:
    """A bound of E[log p(y | f)] from below, for each y, [*batch]; variances of noise are [C], or [*batch, C].

    It is that of a model in which y has an indicator c of its own, of being an outlier, with the best q(c):

        E[log Σ_c w_c p_c(y | f)] ≥ max_q Σ_c q_c (E[log p_c(y | f)] + log w_c/q_c) = log Σ_c w_c exp E[log p_c(y | f)]
    """
    squares = ((y - mean).square() + variance).unsqueeze(-1) / noises  # [*batch, C]
    return (log_weights - 0.5 * (log(2 * pi) + noises.log() + squares)).logsumexp(-1)


def mixture_marginal(y: Tensor, mean: Tensor, variance: Tensor, log_weights: Tensor, noises: Tensor) -> Tensor:
    """The logarithm of Σ_c w_c N(y; mean, variance + noise_c), likewise."""
    total = variance.unsqueeze(-1) + noises  # [*batch, C]
    squares = (y - mean).square().unsqueeze(-1) / total
    return (log_weights - 0.5 * (log(2 * pi) + total.log() + squares)).logsumexp(-1)


@adapter_of.register(ContaminatedGaussianLikelihood)
@final
class ContaminatedAdapter(NormalNoiseAdapter):
    """p(y | f) = (1 − ε) N(y; f, σ²) + ε N(y; f, σ² + ω²), in which σ² may vary."""

    def noise_mixture(
        self, relative: Float[Tensor, "*rows 1"] | None = None
    ) -> tuple[Float[Tensor, " 2"], Float[Tensor, "*rows 2"]]:
        return noise_mixture(self.likelihood, relative)

    def noise_parameters(self) -> NoiseParameters:
        return NoiseParameters(self.likelihood.raw_noise, self.likelihood.raw_outlier_noise, self.likelihood.slopes)

    def relative_noise(self, h: Float[Tensor, "*batch H"]) -> Float[Tensor, "*batch 1"] | None:
        relative: Tensor | None = self.likelihood.relative_noise(h)
        return relative

    @full_precision
    def expected_log_prob(self, y: Tensor, latent: Latent, generator: Generator | None = None) -> Tensor:
        """A bound from below in closed form (`mixture_expectation`)."""
        return mixture_expectation(y, latent.mean, latent.variance, *self._noise_of_outputs(latent)).sum(-1)

    @full_precision
    def log_marginal(self, y: Tensor, latent: Latent, generator: Generator | None = None) -> Tensor:
        """In closed form."""
        return mixture_marginal(y, latent.mean, latent.variance, *self._noise_of_outputs(latent)).sum(-1)

    def _noise_of_outputs(self, latent: Latent) -> tuple[Tensor, Tensor]:
        """As `noise_mixture`, with variances [S, N, 1, C], or [C]: outputs share the noise of their row."""
        log_weights, noises = self.noise_mixture(latent.relative)
        return log_weights, noises if latent.relative is None else noises.unsqueeze(-2)
