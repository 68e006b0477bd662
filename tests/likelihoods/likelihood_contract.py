"""What every adapter promises, checked against p(y | f) alone: by Monte Carlo, and by a quadrature of another kind."""

from unittest.mock import patch

import numpy as np
import torch
from gpytorch.likelihoods import Likelihood
from torch import Tensor

from actgp.likelihoods import Latent, LikelihoodAdapter, adapter_of, targets

DRAWS, REPEATS = 20_000, 50
FISHER_DRAWS, FISHER_SAMPLES = 10_000, 300
NODES = {1: 100, 2: 40, 3: 20}  # of Gauss–Hermite quadrature along each latent function


def check_likelihood(
    likelihood: Likelihood,
    y: Tensor,
    num_latent: int = 1,
    *,
    dtype: torch.dtype = torch.float64,
    error: float = 1e-3,
    bound: bool = False,
) -> None:
    """Checks expectation, marginal, predictive density and Fisher information.

    Args:
        likelihood: The likelihood.
        y: Some targets, as a user gives them.
        num_latent: P, how many latent functions it is given.
        dtype: The precision.
        error: How far quadrature may be off, which is for smooth functions.
        bound: Whether `expected_log_prob` is only a bound from below.
    """
    g = torch.Generator().manual_seed(0)
    adapter, shape = adapter_of(likelihood.to(dtype)), (2, len(y), num_latent)
    y = targets(likelihood, y, len(y), num_latent, dtype)
    mean = torch.randn(shape, dtype=dtype, generator=g)
    latent = Latent(mean, torch.rand(shape, dtype=dtype, generator=g) + 0.1)
    with torch.no_grad():
        check_expectation(adapter, y, latent, g, error, bound)
        check_marginal(adapter, y, latent, g, error)
    check_fisher(adapter, mean[0])


def check_expectation(
    adapter: LikelihoodAdapter, y: Tensor, latent: Latent, generator: torch.Generator, error: float, bound: bool
) -> None:
    noise = torch.randn(DRAWS, *latent.mean.shape, dtype=latent.mean.dtype, generator=generator)
    drawn = adapter.conditional_log_prob(latent.mean + latent.variance.sqrt() * noise, y)  # [K, S, N]
    found = torch.stack([adapter.expected_log_prob(y, latent, generator) for _ in range(REPEATS)])
    allowed = 5 * (drawn.std(0) / DRAWS**0.5 + found.std(0) / REPEATS**0.5) + error
    excess = found.mean(0) - drawn.mean(0)
    assert found.shape == (REPEATS, *latent.mean.shape[:2])
    assert (excess < allowed).all()
    assert bound or (excess > -allowed).all()


def check_marginal(
    adapter: LikelihoodAdapter, y: Tensor, latent: Latent, generator: torch.Generator, error: float
) -> None:
    """By a product of Gauss–Hermite rules over all latent functions together."""
    exact = densities(adapter, y, latent)  # [S, N]
    found = torch.stack([adapter.log_marginal(y, latent, generator) for _ in range(REPEATS)]).exp()
    allowed = 5 * found.std(0) / REPEATS**0.5 + error * exact
    assert ((found.mean(0) - exact).abs() < allowed).all()
    torch.testing.assert_close(adapter.mixture_log_prob(y, latent).exp(), exact.mean(0), rtol=3 * error, atol=0)


def densities(adapter: LikelihoodAdapter, y: Tensor, latent: Latent) -> Tensor:
    P = latent.mean.shape[-1]
    x, w = (torch.from_numpy(values).to(latent.mean) for values in np.polynomial.hermite_e.hermegauss(NODES[P]))
    points = torch.cartesian_prod(*[x] * P).reshape(-1, 1, 1, P)  # [Q, 1, 1, P]
    weights = torch.cartesian_prod(*[w / w.sum()] * P).reshape(-1, 1, 1, P).prod(-1)
    log_probs = adapter.conditional_log_prob(latent.mean + latent.variance.sqrt() * points, y)
    return (weights * log_probs.exp()).sum(0)


def check_fisher(adapter: LikelihoodAdapter, f: Tensor) -> None:
    """Σ_k r_k r_kᵀ is the covariance of the score."""
    with patch("actgp.likelihoods.numerics.FISHER_SAMPLES", FISHER_SAMPLES):
        factors = adapter.fisher_factors(f)  # [K, N, P]
    information = torch.einsum("knp,knq->npq", factors, factors)
    point = f.expand(FISHER_DRAWS, *f.shape).contiguous().requires_grad_()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        y = adapter.conditional(point).sample()
    (scores,) = torch.autograd.grad(adapter.conditional(point).log_prob(y).sum(), point)
    products = torch.einsum("knp,knq->knpq", scores, scores)
    drawn = FISHER_SAMPLES**-0.5 if len(factors) == FISHER_SAMPLES else 0.0
    error = 5 * products.std(0) * (FISHER_DRAWS**-0.5 + drawn) + 1e-4
    assert ((information - products.mean(0)).abs() < error).all()
