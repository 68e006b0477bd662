"""What a model predicts: a mixture of Gaussian latents, seen through the likelihood.

With component s = 1, …, S of the latent (one for a single layer, one for each sampled path of a deep model), by the
law of total variance

    mean      = E[E[y | f]]
    aleatoric = E[Var[y | f]]          noise, which more data does not reduce
    epistemic = Var[E[y | f]]          not knowing f
    variance  = aleatoric + epistemic
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log

import torch
from gpytorch.likelihoods import BernoulliLikelihood, GaussianLikelihood, Likelihood, SoftmaxLikelihood
from gpytorch.likelihoods.likelihood import _OneDimensionalLikelihood
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution

from actgp import checks
from actgp.likelihoods import conditional, log_marginal, sample_latent, targets
from actgp.sampling import normal_points, seeded

QUADRATURE_POINTS = 401
QUADRATURE_RANGE = 7.0  # standard deviations
SOBOL_POINTS = 4_096  # of all components together
INTERVAL_SAMPLES = 2_000
BISECTIONS = 60
CHUNK = 2**24  # numbers in the largest tensor
SEED = 0


@dataclass(frozen=True)
class Prediction:
    """The predictive distribution at N inputs. Tensors are [N] for one output, [N, P] for several.

    For class labels the moments are those of the one-hot label: the mean is the class probabilities.

    Attributes:
        component_means: Means of f for each mixture component, [S, N, P].
        component_variances: Variances of f, likewise.
        likelihood: p(y | f).
    """

    component_means: Float[Tensor, "S N P"]
    component_variances: Float[Tensor, "S N P"]
    likelihood: Likelihood

    def __post_init__(self) -> None:
        # A prediction stays what it was when the model is trained on: it keeps the likelihood as it is now.
        own = copy.deepcopy(self.likelihood).requires_grad_(False).to(self.component_means.dtype)
        object.__setattr__(self, "likelihood", own)

    @property
    def latent_mean(self) -> Tensor:
        """E[f]."""
        return squeeze_outputs(self.component_means.mean(0))

    @property
    def latent_variance(self) -> Tensor:
        """Var[f]."""
        spread = self.component_means.var(0, correction=0)
        return squeeze_outputs(self.component_variances.mean(0) + spread)

    @property
    def mean(self) -> Tensor:
        """E[y]."""
        return squeeze_outputs(self._moments[0])

    @property
    def aleatoric(self) -> Tensor:
        """E[Var[y | f]]."""
        return squeeze_outputs(self._moments[1])

    @property
    def epistemic(self) -> Tensor:
        """Var[E[y | f]]."""
        return squeeze_outputs(self._moments[2])

    @property
    def variance(self) -> Tensor:
        """Var[y] = aleatoric + epistemic."""
        return self.aleatoric + self.epistemic

    @property
    def probabilities(self) -> Float[Tensor, "N C"]:
        """Class probabilities, for Bernoulli (two columns) and softmax likelihoods."""
        if isinstance(self.likelihood, SoftmaxLikelihood):
            return self.mean
        if isinstance(self.likelihood, BernoulliLikelihood):
            return torch.stack([1 - self.mean, self.mean], dim=-1)
        raise ValueError(
            f"probabilities need a likelihood of classes, got {type(self.likelihood).__name__}; use mean and variance"
        )

    def log_prob(self, y: Tensor) -> Float[Tensor, " N"]:
        """The logarithm of p(y_i) under the mixture, summed over outputs."""
        S, N, P = self.component_means.shape
        y = targets(self.likelihood, y, N, P, self.component_means.dtype)
        if isinstance(self.likelihood, GaussianLikelihood | BernoulliLikelihood):  # in closed form
            components = log_marginal(self.likelihood, y, self.component_means, self.component_variances)  # [S, N]
            return components.logsumexp(0) - log(S)
        parts = []
        for (mean, variance), labels in zip(self._in_chunks(), y.split(self._rows), strict=True):
            f, log_weights = _nodes(self.likelihood, mean, variance)  # [Q, S, n, P], [Q]
            log_probs: Tensor = conditional(self.likelihood, f).log_prob(labels)
            if y.ndim == 1:  # labels: one probability a row
                parts.append((log_probs + log_weights[:, None, None]).logsumexp((0, 1)))
            else:  # outputs are independent within a component: average over nodes first, then multiply
                components = (log_probs + log_weights[:, None, None, None]).logsumexp(0).sum(-1)  # [S, n]
                parts.append(components.logsumexp(0))
        return torch.cat(parts) - log(S)

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """The central interval that holds y with probability `level`: its lower and upper ends.

        Exact for Gaussian noise; from 2,000 draws of y, always the same, for other likelihoods.
        """
        if not 0.0 < checks.real(level, "level", example=0.95) < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {level}; pass e.g. 0.95")
        if isinstance(self.likelihood, SoftmaxLikelihood | BernoulliLikelihood):
            raise ValueError("class labels have no interval, got a likelihood of classes; use probabilities")
        ends = self.component_means.new_tensor([(1 - level) / 2, (1 + level) / 2])
        if isinstance(self.likelihood, GaussianLikelihood):
            sd = (self.component_variances + self.likelihood.noise).sqrt()
            lower, upper = (_mixture_quantile(self.component_means, sd, p) for p in ends)
        else:
            samples = (_draws(self.likelihood, *part).quantile(ends, dim=0) for part in self._in_chunks())
            lower, upper = torch.cat(list(samples), dim=1)
        return squeeze_outputs(lower), squeeze_outputs(upper)

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """E[y], aleatoric and epistemic variance, each [N, P]."""
        if isinstance(self.likelihood, GaussianLikelihood):
            mean = self.component_means.mean(0)
            spread = self.component_means.var(0, correction=0)
            return mean, self.likelihood.noise.expand_as(mean), self.component_variances.mean(0) + spread
        parts = [_integrated_moments(self.likelihood, *part) for part in self._in_chunks()]
        mean, aleatoric, epistemic = (torch.cat(values) for values in zip(*parts, strict=True))
        return mean, aleatoric, epistemic

    @property
    def _rows(self) -> int:
        """How many inputs at a time keep the nodes of all components within CHUNK numbers."""
        S, _, P = self.component_means.shape
        return max(1, CHUNK // (INTERVAL_SAMPLES * S * P))

    def _in_chunks(self) -> Iterator[tuple[Float[Tensor, "S n P"], Float[Tensor, "S n P"]]]:
        parts = (values.split(self._rows, dim=1) for values in (self.component_means, self.component_variances))
        return zip(*parts, strict=True)


def _integrated_moments(
    likelihood: Likelihood, mean: Float[Tensor, "S N P"], variance: Float[Tensor, "S N P"]
) -> tuple[Tensor, Tensor, Tensor]:
    """E[y], E[Var[y | f]] and Var[E[y | f]] by quadrature over f."""
    if isinstance(likelihood, SoftmaxLikelihood) and likelihood.mixing_weights is None:
        return _softmax_moments(mean, variance)
    f, log_weights = _nodes(likelihood, mean, variance)
    weights = log_weights.exp().reshape(-1, 1, 1, 1) / len(mean)
    given_mean, given_variance = _conditional_moments(conditional(likelihood, f))  # [Q, S, N, P]
    if isinstance(likelihood, BernoulliLikelihood):
        # E[Φ(f)] = Φ(μ / √(1+v)), as in log_prob; and aleatoric + epistemic = p (1 − p)
        p = torch.special.ndtr(mean / (1 + variance).sqrt()).mean(0)
        epistemic = (weights * (given_mean - p).square()).sum((0, 1))
        return p, p * (1 - p) - epistemic, epistemic
    total = (weights * given_mean).sum((0, 1))
    aleatoric = (weights * given_variance).sum((0, 1))
    return total, aleatoric, (weights * (given_mean - total).square()).sum((0, 1))


def _softmax_moments(
    mean: Float[Tensor, "S N P"], variance: Float[Tensor, "S N P"]
) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"], Float[Tensor, "N P"]]:
    """The same for class probabilities p, at nodes of equal weight: E[p], E[p] − E[p²] and E[p²] − E[p]²."""
    # Classes come first: a softmax over the last of few entries is several times slower.
    latent, sd = (values.permute(2, 0, 1).unsqueeze(1).contiguous() for values in (mean, variance.sqrt()))
    points = _sobol(mean).permute(3, 0, 1, 2).contiguous()  # [P, Q, S, 1]
    p = torch.addcmul(latent, sd, points).softmax(0)  # [P, Q, S, N]
    total, square = p.mean((1, 2)).T, p.square_().mean((1, 2)).T
    return total, total - square, (square - total.square()).clamp_min(0.0)


def _nodes(
    likelihood: Likelihood, mean: Float[Tensor, "S N P"], variance: Float[Tensor, "S N P"]
) -> tuple[Float[Tensor, "Q S N P"], Float[Tensor, " Q"]]:
    """Points f and log-weights that integrate over each component: a grid, or Sobol points for several latents."""
    if isinstance(likelihood, _OneDimensionalLikelihood):
        # The trapezoidal rule resolves likelihoods down to a thirtieth of the latent's sd; Gauss–Hermite does not.
        x = torch.linspace(-QUADRATURE_RANGE, QUADRATURE_RANGE, QUADRATURE_POINTS, dtype=torch.float64).to(mean)
        return mean + variance.sqrt() * x.reshape(-1, 1, 1, 1), (-0.5 * x**2).log_softmax(0)
    points = _sobol(mean)
    return mean + variance.sqrt() * points, mean.new_full((len(points),), -log(len(points)))


def _sobol(mean: Float[Tensor, "S N P"]) -> Float[Tensor, "Q S 1 P"]:
    """Components have points of their own: runs of the sequence, of which each covers the normal distribution."""
    S, _, P = mean.shape
    Q = -(-SOBOL_POINTS // S)
    return normal_points(S * Q, P, SEED).to(mean).reshape(S, Q, 1, P).transpose(0, 1)


def _draws(
    likelihood: Likelihood, mean: Float[Tensor, "S N P"], variance: Float[Tensor, "S N P"]
) -> Float[Tensor, "K N P"]:
    """Draws of y. torch's distributions draw from the global generator, which is put back."""
    with seeded(SEED, mean.device):
        f = sample_latent(mean, variance, -(-INTERVAL_SAMPLES // len(mean)), None)
        y: Tensor = conditional(likelihood, f).sample()
    return y.flatten(0, 1)


def _conditional_moments(distribution: Distribution) -> tuple[Tensor, Tensor]:
    """E[y | f] and Var[y | f]; of the one-hot label for classes."""
    if isinstance(distribution, Categorical | Bernoulli):
        return distribution.probs, distribution.probs * (1 - distribution.probs)
    return distribution.mean, distribution.variance


def _mixture_quantile(mean: Float[Tensor, "S N P"], sd: Float[Tensor, "S N P"], p: Tensor) -> Float[Tensor, "N P"]:
    """The p-quantile of an equal mixture of Gaussians, by bisection between the components' own quantiles."""
    quantiles = mean + sd * torch.special.ndtri(p)
    low, high = quantiles.amin(0), quantiles.amax(0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        below = torch.special.ndtr((middle - mean) / sd).mean(0) < p
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


def squeeze_outputs(values: Float[Tensor, "N P"]) -> Tensor:
    """[N] for one output, [N, P] for several: the shape of everything that models return."""
    return values.squeeze(-1) if values.shape[-1] == 1 else values
