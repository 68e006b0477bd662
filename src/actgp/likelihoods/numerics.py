"""Integrals over latent functions that have no closed form: at points with weights, or from draws.

For one latent function: Gauss–Hermite quadrature for E[log p(y | f)], which is smooth, and the trapezoidal rule for
∫ p(y | f) q(f) df: it resolves likelihoods down to a thirtieth of the latent's sd, and Gauss–Hermite does not. For
several: reparametrised draws while training, Sobol points for predictions. The functions for training are methods of
the adapters that name them.
"""

from collections.abc import Callable, Iterator, Sequence
from math import log
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.distributions import Categorical, Distribution, Normal

from actgp.autocast import full_precision
from actgp.likelihoods.adapter import Latent, LikelihoodAdapter, Moments
from actgp.sampling import normal_points, seeded

LATENT_SAMPLES = 32  # of f, for each E[log p(y | f)] and ∫ p(y | f) q(f) df while training
FISHER_SAMPLES = 16  # of y
MARGINAL_POINTS, MARGINAL_RANGE = 61, 6.0  # of a grid while training, and how many standard deviations it goes
GRID_POINTS, GRID_RANGE = 401, 7.0  # of one for predictions
SOBOL_POINTS = 4_096  # of all components together
QUANTILE_SAMPLES = 2_000
CHUNK = 2**24  # numbers in the largest tensor of a prediction
SEED = 0

Nodes = tuple[Float[Tensor, "Q S N P"], Float[Tensor, "Q 1 1 1"]]  # points f, and logarithms of their weights
MakeNodes = Callable[[Latent], Nodes]


# While training


@full_precision
def expectation_by_quadrature(
    adapter: LikelihoodAdapter, y: Tensor, latent: Latent, generator: Generator | None = None
) -> Float[Tensor, "*S N"]:
    """E[log p(y_i | f_i)] of one latent function for each output, by gpytorch's Gauss–Hermite quadrature."""
    f = Normal(latent.mean, latent.variance.sqrt())
    log_probs: Tensor = adapter.likelihood.expected_log_prob(y, f)  # [S, N, P]
    return log_probs.sum(-1)


@full_precision
def marginal_by_quadrature(
    adapter: LikelihoodAdapter, y: Tensor, latent: Latent, generator: Generator | None = None
) -> Float[Tensor, "*S N"]:
    """Log ∫ p(y_i | f_i) q(f_i) df_i of one latent function for each output, by the trapezoidal rule."""
    f, log_weights = _on_grid(latent, MARGINAL_POINTS, MARGINAL_RANGE)
    log_probs: Tensor = adapter.conditional(f).log_prob(y)  # [Q, S, N, P]
    return (log_probs + log_weights).logsumexp(0).sum(-1)


@full_precision
def expectation_by_sampling(
    adapter: LikelihoodAdapter, y: Tensor, latent: Latent, generator: Generator | None = None
) -> Float[Tensor, "*S N"]:
    """E[log p(y_i | f_i)] as the mean over draws of f."""
    return adapter.conditional_log_prob(sample_latent(latent, LATENT_SAMPLES, generator), y).mean(0)


@full_precision
def marginal_by_sampling(
    adapter: LikelihoodAdapter, y: Tensor, latent: Latent, generator: Generator | None = None
) -> Float[Tensor, "*S N"]:
    """Log ∫ p(y_i | f_i) q(f_i) df_i from the mean over draws of f."""
    f = sample_latent(latent, LATENT_SAMPLES, generator)
    return adapter.conditional_log_prob(f, y).logsumexp(0) - log(LATENT_SAMPLES)


def sample_latent(latent: Latent, num_samples: int, generator: Generator | None) -> Float[Tensor, "K *S N P"]:
    """Reparametrised draws of f."""
    mean = latent.mean
    noise = torch.randn(num_samples, *mean.shape, dtype=mean.dtype, device=mean.device, generator=generator)
    return mean + latent.variance.sqrt() * noise


@full_precision
def fisher_by_sampling(adapter: LikelihoodAdapter, f: Float[Tensor, "N P"]) -> Float[Tensor, "K N P"]:
    """Scores at draws of y, always the same: the mean of s sᵀ is near the Fisher information."""
    f = f.detach()
    with seeded(SEED, f.device):  # torch's distributions draw from the global generator
        draws = [adapter.conditional(f).sample() for _ in range(FISHER_SAMPLES)]
    return torch.stack([score(adapter, f, y) for y in draws]) / FISHER_SAMPLES**0.5


def score(adapter: LikelihoodAdapter, f: Float[Tensor, "N P"], y: Tensor) -> Float[Tensor, "N P"]:
    """∂ log p(y_i | f_i) / ∂f_i."""
    with torch.enable_grad():
        f = f.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(adapter.conditional_log_prob(f, y).sum(), f)
    return gradient


# For predictions


def grid_nodes(latent: Latent) -> Nodes:
    """The trapezoidal rule, for one latent function for each output."""
    return _on_grid(latent, GRID_POINTS, GRID_RANGE)


def sobol_nodes(latent: Latent) -> Nodes:
    """Points of equal weights, for several latent functions."""
    points = sobol_points(latent.mean)
    log_weights = points.new_full((len(points), 1, 1, 1), -log(len(points)))
    return latent.mean + latent.variance.sqrt() * points, log_weights


def sobol_points(mean: Float[Tensor, "S N P"], share: int = 1) -> Float[Tensor, "Q S 1 P"]:
    """Components have points of their own: runs of the sequence, of which each covers the normal distribution.

    Of all points, one in `share` is taken.
    """
    S, _, P = mean.shape
    Q = -(-SOBOL_POINTS // (S * share))
    return normal_points(S * Q, P, SEED).to(mean).reshape(S, Q, 1, P).transpose(0, 1)


def _on_grid(latent: Latent, num_points: int, reach: float) -> tuple[Float[Tensor, "Q *S N P"], Tensor]:
    """Equidistant points up to `reach` standard deviations, and the logarithms of weights that add up to one."""
    x = torch.linspace(-reach, reach, num_points, dtype=torch.float64).to(latent.mean)
    x = x.reshape(-1, *[1] * latent.mean.ndim)  # [Q, 1, …]
    return latent.mean + latent.variance.sqrt() * x, (-0.5 * x**2).log_softmax(0)


def in_chunks(latent: Latent, *targets: Tensor, numbers: int = 1) -> Iterator[tuple[Any, ...]]:
    """Marginals and targets, a few rows at a time, so that no tensor of a prediction exceeds CHUNK numbers.

    The largest tensors hold 2,000 draws of f for each component, and `numbers` numbers for p(y | f) at each draw: one,
    or the probabilities of C labels.
    """
    S, _, P = latent.mean.shape
    rows = max(1, CHUNK // (QUANTILE_SAMPLES * S * P * numbers))
    parts = map(Latent, latent.mean.split(rows, 1), latent.variance.split(rows, 1))
    return zip(parts, *(y.split(rows) for y in targets), strict=True)


def joined(parts: Sequence[Moments]) -> Moments:
    """The moments of all rows from those of chunks of them."""
    return Moments(*map(torch.cat, zip(*parts, strict=True)))


def moments_at_nodes(adapter: LikelihoodAdapter, make: MakeNodes, latent: Latent, numbers: int = 1) -> Moments:
    """E[y], E[Var[y | f]] and Var[E[y | f]]; `numbers` as for `in_chunks`."""
    parts = []
    for part, *_ in in_chunks(latent, numbers=numbers):
        f, log_weights = make(part)
        weights = log_weights.exp() / len(part.mean)
        given_mean, given_variance = _conditional_moments(adapter.conditional(f), f.ndim)  # [Q, S, n, P]
        total = (weights * given_mean).sum((0, 1))
        aleatoric = (weights * given_variance).sum((0, 1))
        parts.append(Moments(total, aleatoric, (weights * (given_mean - total).square()).sum((0, 1))))
    return joined(parts)


def _conditional_moments(given: Distribution, num_dims: int) -> tuple[Tensor, Tensor]:
    """E[y | f] and Var[y | f] for f with `num_dims` dimensions; of the one-hot label for classes without an order."""
    if not isinstance(given, Categorical):
        return given.mean, given.variance
    p = given.probs
    if not is_ordered(given, num_dims):
        return p, p * (1 - p)
    labels = torch.arange(p.shape[-1], dtype=p.dtype, device=p.device)
    mean = p @ labels  # Σ_k k p_k
    return mean, (p * (labels - mean.unsqueeze(-1)).square()).sum(-1)


def is_ordered(given: Distribution, num_dims: int) -> bool:
    """Whether p(y | f), f with `num_dims` dimensions, is of one label for each latent function, not one for each row.

    Labels y = 0, …, C − 1 of this kind have an order. It is read off the distribution, so that it holds for users'
    likelihoods, too.
    """
    return isinstance(given, Categorical) and len(given.batch_shape) == num_dims


def log_prob_at_nodes(
    adapter: LikelihoodAdapter, make: MakeNodes, y: Tensor, latent: Latent, numbers: int = 1
) -> Float[Tensor, " N"]:
    """Log (1/S) Σ_s p(y_i | component s)."""
    parts = []
    for part, targets in in_chunks(latent, y, numbers=numbers):
        f, log_weights = make(part)
        log_probs: Tensor = adapter.conditional(f).log_prob(targets)
        if y.ndim == 1:  # labels: one probability a row
            parts.append((log_probs + log_weights.squeeze(-1)).logsumexp((0, 1)))
        else:  # outputs are independent within a component: average over nodes first, then multiply
            components = (log_probs + log_weights).logsumexp(0).sum(-1)  # [S, n]
            parts.append(components.logsumexp(0))
    return torch.cat(parts) - log(len(latent.mean))
