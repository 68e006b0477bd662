import pytest
import torch
from gpytorch.likelihoods import BernoulliLikelihood
from test_every_likelihood import ACCEPTED, N, outcomes
from torch.autograd import gradcheck

from actgp.likelihoods import Latent, SamplingAdapter, SoftmaxAdapter, adapter_of, targets

EXACT = [name for name in ACCEPTED if not isinstance(adapter_of(ACCEPTED[name](2)), SamplingAdapter | SoftmaxAdapter)]


@pytest.mark.parametrize("name", EXACT)
def test_marginals_of_a_batch_are_differentiable(name: str, generator: torch.Generator) -> None:
    likelihood = ACCEPTED[name](1).double()
    mean = torch.randn(2, N, 1, dtype=torch.float64, generator=generator).requires_grad_()
    variance = (torch.rand(2, N, 1, dtype=torch.float64, generator=generator) + 0.1).requires_grad_()
    y = targets(likelihood, outcomes(name, 1), N, 1, torch.float64)
    assert adapter_of(likelihood).log_marginal(y, Latent(mean, variance)).shape == (2, N)
    assert gradcheck(lambda m, v: adapter_of(likelihood).log_marginal(y, Latent(m, v)), (mean, variance))


def test_the_probit_is_sharp_far_from_the_boundary_too() -> None:
    factors = adapter_of(BernoulliLikelihood()).fisher_factors(torch.tensor([[-30.0], [30.0]], dtype=torch.float64))
    assert torch.isfinite(factors).all()
    assert (factors > 0).all()
