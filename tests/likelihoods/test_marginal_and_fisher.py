import pytest
import torch
from test_expectation import CASES as EXPECTED
from torch.autograd import gradcheck

from actgp.likelihoods import (
    ContaminatedGaussianLikelihood,
    conditional,
    conditional_log_prob,
    fisher_factors,
    log_marginal,
    targets,
)

CASES = EXPECTED | {"outliers": (ContaminatedGaussianLikelihood(share=0.1), [0.3, -1.0, 9.0])}


@pytest.mark.parametrize("name", CASES)
def test_marginals_against_monte_carlo(name: str, dtype: torch.dtype, generator: torch.Generator) -> None:
    likelihood, labels = CASES[name]
    likelihood = likelihood.to(dtype)
    P = 3 if name == "softmax" else 1
    mean = torch.randn(3, P, dtype=dtype, generator=generator)
    variance = torch.rand(3, P, dtype=dtype, generator=generator) + 0.1
    y = targets(likelihood, torch.tensor(labels), 3, P, dtype)
    f = mean + variance.sqrt() * torch.randn(100_000, 3, P, dtype=dtype, generator=generator)
    samples = conditional_log_prob(likelihood, f, y).exp().detach()
    repeats = torch.stack([log_marginal(likelihood, y, mean, variance, generator=generator) for _ in range(200)])
    error = 5 * (samples.std(0) / 100_000**0.5 + repeats.exp().std(0) / 200**0.5) + 1e-4
    assert ((repeats.exp().mean(0) - samples.mean(0)).abs() < error).all()


@pytest.mark.parametrize("name", ["gaussian", "outliers", "bernoulli", "student", "poisson"])
def test_marginals_of_a_batch_are_differentiable(name: str, generator: torch.Generator) -> None:
    likelihood, labels = CASES[name]
    likelihood = likelihood.double()
    mean = torch.randn(2, 3, 1, dtype=torch.float64, generator=generator).requires_grad_()
    variance = (torch.rand(2, 3, 1, dtype=torch.float64, generator=generator) + 0.1).requires_grad_()
    y = targets(likelihood, torch.tensor(labels), 3, 1, torch.float64)
    assert log_marginal(likelihood, y, mean, variance).shape == (2, 3)
    assert gradcheck(lambda m, v: log_marginal(likelihood, y, m, v), (mean, variance))


@pytest.mark.parametrize("name", CASES)
def test_factors_make_up_the_covariance_of_the_score(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actgp.likelihoods.fisher.NUM_SAMPLES", 4_000)
    likelihood = CASES[name][0].to(dtype)
    P = 3 if name == "softmax" else 2
    f = torch.tensor([[0.3, -1.0, 2.0], [0.1, 0.5, 0.0]], dtype=dtype)[:, :P]
    factors = fisher_factors(likelihood, f)  # [K, N, P]
    information = torch.einsum("knp,knq->npq", factors, factors)
    torch.manual_seed(0)
    point = f.expand(20_000, 2, P).contiguous().requires_grad_()
    y = conditional(likelihood, point).sample()
    log_prob = conditional(likelihood, point).log_prob(y)
    (scores,) = torch.autograd.grad(log_prob.sum(), point)
    products = torch.einsum("knp,knq->knpq", scores, scores)
    exact = name in ("gaussian", "outliers", "bernoulli", "softmax")
    error = 5 * products.std(0) * (20_000**-0.5 + (0.0 if exact else 4_000**-0.5)) + 1e-4
    assert ((information - products.mean(0)).abs() < error).all()


def test_the_probit_is_sharp_far_from_the_boundary_too() -> None:
    factors = fisher_factors(CASES["bernoulli"][0].double(), torch.tensor([[-30.0], [30.0]], dtype=torch.float64))
    assert torch.isfinite(factors).all()
    assert (factors > 0).all()
