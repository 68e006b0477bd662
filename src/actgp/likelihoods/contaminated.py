"""Gaussian noise with outliers, as in the contaminated normal distribution (Tukey, 1960), which may follow the inputs:

    p(y | f) = (1 − ε) N(y; f, σ²) + ε N(y; f, σ² + ω²)

To Gaussian noise a value ten standard deviations away is all but impossible: it costs fifty nats, and bends functions
and noise. If one value in a hundred may be an outlier, with noise ten times as wide, it costs some seven, and pulls
little.

Some inputs have more noise than others. σ² may follow what the last layer is given, h: with the lower bound b of σ²,

    σ²(h) = b + (σ² − b) r(h),     log r(h) = 4 tanh(cᵀh / 4)

in which σ² is the noise at h = 0, and r the relative noise, between e⁻⁴ and e⁴. A linear function of h suffices: the
hidden layers make features of x in which such differences are easy to see, and with skip connections h holds x, too.
"""

from typing import Any, ClassVar, final

import torch
from gpytorch.constraints import GreaterThan, Interval, Positive
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.priors import Prior
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Categorical, Distribution, MixtureSameFamily, Normal

from actgp import checks
from actgp.likelihoods.adapter import Latent, NoiseParameters, adapter_of
from actgp.likelihoods.gaussian import NoiseAdapter, NoiseMixture
from actgp.persistence import Sizes, savable

SHARE = 0.01
SMALLEST_NOISE = 1e-6
LARGEST_EXPONENT = 4.0  # of the relative noise: it may grow and shrink by a factor of 55


@savable
class ContaminatedGaussianLikelihood(GaussianLikelihood):
    """Gaussian noise σ², to which a share of outliers adds noise ω²; both are learnt, the share is not.

    Models of this library use it through its adapter (`ContaminatedAdapter`), which is given h. gpytorch's own methods,
    `marginal` and the like, are not: they use the noise at h = 0.

    Args:
        noise_prior: Of σ², as gpytorch's.
        noise_constraint: Of σ², as gpytorch's; above 1e-6 by default. Where noise varies, only the lower bound holds.
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
        """ω²."""
        noise: Tensor = self.raw_outlier_noise_constraint.transform(self.raw_outlier_noise)
        return noise

    @outlier_noise.setter
    def outlier_noise(self, value: float) -> None:
        noise = self.raw_outlier_noise.new_tensor(checks.positive(value, "outlier_noise"))
        self.initialize(raw_outlier_noise=self.raw_outlier_noise_constraint.inverse_transform(noise))

    def expected_log_prob(self, target: Tensor, input: Distribution, *args: object, **kwargs: object) -> Tensor:
        """A bound of E[log p(y_i | f_i)] from below, the one that models are trained with."""
        latent = Latent(input.mean.unsqueeze(-1), input.variance.unsqueeze(-1))
        return ContaminatedAdapter(self).expected_log_prob(target.unsqueeze(-1), latent)

    def log_marginal(self, observations: Tensor, function_dist: Distribution, *args: Any, **kwargs: Any) -> Tensor:
        """log p(y_i) for f_i of these means and variances."""
        return self.marginal(function_dist).log_prob(observations)

    def marginal(self, function_dist: Distribution, *args: object, **kwargs: object) -> MixtureSameFamily:
        """p(y_i) for each i by itself."""
        return self._mixture(function_dist.mean, function_dist.variance)

    def forward(self, function_samples: Tensor, *args: object, **kwargs: object) -> MixtureSameFamily:
        """p(y | f)."""
        return self._mixture(function_samples, torch.zeros_like(function_samples))

    def _mixture(self, mean: Tensor, variance: Tensor) -> MixtureSameFamily:
        weights, noises = zip(*ContaminatedAdapter(self).noise_mixture(), strict=True)
        total = variance.unsqueeze(-1) + torch.cat(noises)  # [*batch, 2]
        components = Normal(mean.unsqueeze(-1).expand_as(total), total.sqrt())
        return MixtureSameFamily(Categorical(total.new_tensor(weights).expand_as(total)), components)


@adapter_of.register(ContaminatedGaussianLikelihood)
@final
class ContaminatedAdapter(NoiseAdapter):
    """Two normals: noise without outliers, and with them."""

    def noise_mixture(self, relative: Float[Tensor, "*rows 1"] | None = None) -> NoiseMixture:
        likelihood = self.likelihood
        noise = likelihood.noise
        if relative is not None:
            bound = likelihood.noise_covar.raw_noise_constraint.lower_bound.clamp_min(0.0)
            noise = bound + (noise - bound) * relative
        return ((1 - likelihood.share, noise), (likelihood.share, noise + likelihood.outlier_noise))

    def noise_parameters(self) -> NoiseParameters:
        likelihood = self.likelihood
        return NoiseParameters(likelihood.raw_noise, likelihood.raw_outlier_noise, likelihood.slopes)

    def relative_noise(self, h: Float[Tensor, "*batch H"]) -> Float[Tensor, "*batch 1"] | None:
        slopes = self.likelihood.slopes
        if slopes is None:
            return None
        exponents = (h @ slopes.to(h.dtype)).unsqueeze(-1) / LARGEST_EXPONENT
        return (LARGEST_EXPONENT * exponents.tanh()).exp()
