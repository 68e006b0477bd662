"""Gaussian noise, y = f + noise, with outliers or without: all that follows from it being a mixture of C normals.

    p(y | f) = Σ_c w_c N(y; f, σ_c²)

C is 1 for gpytorch's `GaussianLikelihood` and 2 with outliers (`ContaminatedGaussianLikelihood`). For f ~ N(μ, v) both
terms that training needs are of the form log Σ_c w_c exp(−½ (log 2πτ_c + s/τ_c)):

    log p(y)          s = (y − μ)²,       τ_c = v + σ_c²
    E[log p(y | f)]   s = (y − μ)² + v,   τ_c = σ_c²

The second is exact for C = 1 and else a bound from below. It is that of a model with an indicator c of its own for each
y, of being an outlier, and the best q(c):

    E[log Σ_c w_c p_c(y | f)] ≥ max_q Σ_c q_c (E[log p_c(y | f)] + log w_c/q_c) = log Σ_c w_c exp E[log p_c(y | f)]

Outliers are those of the contaminated normal distribution (Tukey, 1960),

    p(y | f) = (1 − ε) N(y; f, σ²) + ε N(y; f, σ² + ω²)

To Gaussian noise a value ten standard deviations away is all but impossible: it costs fifty nats, and bends functions
and noise. If one value in a hundred may be an outlier, with noise ten times as wide, it costs some seven, and pulls
little.

Some inputs have more noise than others. σ² may follow what the last layer is given, h: with the lower bound b of σ²,

    σ²(h) = b + (σ² − b) r(h),     log r(h) = 4 tanh(cᵀh / 4)

in which σ² is the noise at h = 0, and r the relative noise, between e⁻⁴ and e⁴. A linear function of h suffices: the
hidden layers make features of x in which such differences are easy to see, and with skip connections h holds x, too.
"""

from functools import reduce
from math import log, pi
from typing import Any, ClassVar, Never, final

import torch
from gpytorch.constraints import GreaterThan, Interval, Positive
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.priors import Prior
from jaxtyping import Float
from torch import Generator, Tensor
from torch.distributions import Categorical, Distribution, MixtureSameFamily, Normal

from actgp import checks
from actgp.autocast import full_precision
from actgp.likelihoods.adapter import Latent, LikelihoodAdapter, Moments, NoiseParameters, adapter_of, supported
from actgp.likelihoods.gpytorch_names import GaussianNoise
from actgp.likelihoods.targets import columns
from actgp.persistence import Sizes, savable

NODES, FARTHEST = 2_001, 10.0  # of an integral over noise: how many, up to how many standard deviations
BISECTIONS = 60
SHARE = 0.01
SMALLEST_NOISE = 1e-6
LARGEST_EXPONENT = 4.0  # of the relative noise: it may grow and shrink by a factor of 55

NoiseMixture = tuple[tuple[float, Float[Tensor, "*rows 1"]], ...]  # weight and variance of each normal


@savable
class ContaminatedGaussianLikelihood(GaussianLikelihood):
    """Gaussian noise σ², to which a share of outliers adds noise ω²; both are learnt, the share is not.

    Models of this library use it through its adapter (`GaussianAdapter`), which is given h. gpytorch's own methods,
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

    def noise_mixture(self, relative: Float[Tensor, "*rows 1"] | None = None) -> NoiseMixture:
        """Weights and variances of noise without outliers and with them.

        Args:
            relative: r, the relative noise of each row; without it, as where noise is the same everywhere, variances
                are [1].
        """
        noise = self.noise
        if relative is not None:
            bound = self.noise_covar.raw_noise_constraint.lower_bound.clamp_min(0.0)
            noise = bound + (noise - bound) * relative
        return ((1 - self.share, noise), (self.share, noise + self.outlier_noise))

    def expected_log_prob(self, target: Tensor, input: Distribution, *args: object, **kwargs: object) -> Tensor:
        """A bound of E[log p(y_i | f_i)] from below, the one that models are trained with."""
        latent = Latent(input.mean.unsqueeze(-1), input.variance.unsqueeze(-1))
        return adapter_of(self).expected_log_prob(target.unsqueeze(-1), latent)

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
        weights, noises = zip(*self.noise_mixture(), strict=True)
        total = variance.unsqueeze(-1) + torch.cat(noises)  # [*batch, 2]
        components = Normal(mean.unsqueeze(-1).expand_as(total), total.sqrt())
        return MixtureSameFamily(Categorical(total.new_tensor(weights).expand_as(total)), components)


@adapter_of.register(GaussianLikelihood)
@final
class GaussianAdapter(LikelihoodAdapter):
    """gpytorch's `GaussianLikelihood`, and what derives from it."""

    squared_error = True

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

    def noise_mixture(self, relative: Float[Tensor, "*rows 1"] | None = None) -> NoiseMixture:
        """Weights w_c and variances σ_c²; the latter are [*rows, 1], or [1] where noise is the same everywhere."""
        likelihood = self.likelihood
        if isinstance(likelihood, ContaminatedGaussianLikelihood):
            return likelihood.noise_mixture(relative)
        return ((1.0, likelihood.noise),)

    def noise_parameters(self) -> NoiseParameters:
        likelihood = self.likelihood
        if isinstance(likelihood, ContaminatedGaussianLikelihood):
            return NoiseParameters(likelihood.raw_noise, likelihood.raw_outlier_noise, likelihood.slopes)
        return NoiseParameters(likelihood.raw_noise)

    def relative_noise(self, h: Float[Tensor, "*batch H"]) -> Float[Tensor, "*batch 1"] | None:
        likelihood = self.likelihood
        return likelihood.relative_noise(h) if isinstance(likelihood, ContaminatedGaussianLikelihood) else None

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
    if not isinstance(likelihood, GaussianLikelihood) or isinstance(likelihood, ContaminatedGaussianLikelihood):
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
    """The p-quantile of a mixture of Gaussians, by bisection between the components' own quantiles."""
    sd, weights = variance.sqrt(), weights.reshape(-1, 1, 1)
    quantiles = mean + sd * torch.special.ndtri(p)
    low, high = quantiles.amin(0), quantiles.amax(0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        below = (weights * torch.special.ndtr((middle - mean) / sd)).sum(0) < p
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2
