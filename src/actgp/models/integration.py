"""Integrals over latent functions that have no closed form: at points with weights, or from draws."""

from math import log

import torch
from gpytorch.likelihoods import BernoulliLikelihood, Likelihood, SoftmaxLikelihood
from gpytorch.likelihoods.likelihood import _OneDimensionalLikelihood
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution

from actgp.likelihoods import conditional, label_moments, ordered, sample_latent
from actgp.sampling import normal_points, seeded

QUADRATURE_POINTS = 401
QUADRATURE_RANGE = 7.0  # standard deviations
SOBOL_POINTS = 4_096  # of all components together
SEED = 0


def integrated_moments(
    likelihood: Likelihood, mean: Float[Tensor, "S N P"], variance: Float[Tensor, "S N P"]
) -> tuple[Tensor, Tensor, Tensor]:
    """E[y], E[Var[y | f]] and Var[E[y | f]] by quadrature over f."""
    if isinstance(likelihood, SoftmaxLikelihood) and likelihood.mixing_weights is None:
        return _softmax_moments(mean, variance)
    f, log_weights = nodes(likelihood, mean, variance)
    weights = log_weights.exp().reshape(-1, 1, 1, 1) / len(mean)
    given_mean, given_variance = _conditional_moments(conditional(likelihood, f), f.ndim)  # [Q, S, N, P]
    if isinstance(likelihood, BernoulliLikelihood):
        # E[Φ(f)] = Φ(μ / √(1+v)), as in log_prob; and aleatoric + epistemic = p (1 − p)
        p = torch.special.ndtr(mean / (1 + variance).sqrt()).mean(0)
        epistemic = (weights * (given_mean - p).square()).sum((0, 1))
        return p, p * (1 - p) - epistemic, epistemic
    total = (weights * given_mean).sum((0, 1))
    aleatoric = (weights * given_variance).sum((0, 1))
    return total, aleatoric, (weights * (given_mean - total).square()).sum((0, 1))


def label_probabilities(
    likelihood: Likelihood, mean: Float[Tensor, "S N P"], variance: Float[Tensor, "S N P"]
) -> Float[Tensor, "N P C"]:
    """E[p] for ordered labels, by quadrature over f."""
    f, log_weights = nodes(likelihood, mean, variance)
    p: Tensor = conditional(likelihood, f).probs  # type: ignore[attr-defined]  # [Q, S, N, P, C]
    return torch.tensordot(log_weights.exp(), p.mean(1), 1)


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


def nodes(
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


def draws(
    likelihood: Likelihood, mean: Float[Tensor, "S N P"], variance: Float[Tensor, "S N P"], num_draws: int
) -> Float[Tensor, "K N P"]:
    """At least so many draws of y. torch's distributions draw from the global generator, which is put back."""
    with seeded(SEED, mean.device):
        f = sample_latent(mean, variance, -(-num_draws // len(mean)), None)
        y: Tensor = conditional(likelihood, f).sample()
    return y.flatten(0, 1)


def _conditional_moments(distribution: Distribution, num_dims: int) -> tuple[Tensor, Tensor]:
    """E[y | f] and Var[y | f], f of so many dimensions; of the one-hot label for classes without an order."""
    if ordered(distribution, num_dims):
        return label_moments(distribution.probs)  # type: ignore[attr-defined]
    if isinstance(distribution, Categorical | Bernoulli):
        return distribution.probs, distribution.probs * (1 - distribution.probs)
    return distribution.mean, distribution.variance
