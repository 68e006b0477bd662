import pytest
import torch
from gpytorch.likelihoods import (
    BernoulliLikelihood,
    BetaLikelihood,
    GaussianLikelihood,
    Likelihood,
    NegativeBinomialLikelihood,
    SoftmaxLikelihood,
    StudentTLikelihood,
)
from gpytorch.likelihoods.poisson_likelihood import PoissonLikelihood
from torch.autograd import gradcheck, gradgradcheck

from actgp.likelihoods import Latent, adapter_of, targets


def test_several_outputs_are_summed(generator: torch.Generator) -> None:
    mean = torch.randn(4, 2, generator=generator)
    variance = torch.rand(4, 2, generator=generator)
    y = torch.randn(4, 2, generator=generator)
    for likelihood in (GaussianLikelihood(), StudentTLikelihood()):
        adapter = adapter_of(likelihood)
        both = adapter.expected_log_prob(y, Latent(mean, variance))
        each = [adapter.expected_log_prob(y[:, [p]], Latent(mean[:, [p]], variance[:, [p]])) for p in range(2)]
        torch.testing.assert_close(both, each[0] + each[1])


def test_softmax_is_not_transposed_when_rows_and_classes_agree(generator: torch.Generator) -> None:
    # gpytorch takes a square block of logits for its old layout; ours must not depend on how many rows there are.
    adapter = adapter_of(SoftmaxLikelihood(num_classes=3, mixing_weights=False))
    f = torch.randn(3, 3, generator=generator)
    y = torch.tensor([0, 1, 2])
    together = adapter.conditional_log_prob(f, y)
    alone = torch.cat([adapter.conditional_log_prob(f[[i]], y[[i]]) for i in range(3)])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(together, f.log_softmax(-1).diagonal())


def test_sampled_expectations_follow_the_generator() -> None:
    adapter = adapter_of(SoftmaxLikelihood(num_classes=3, mixing_weights=False))

    def value(seed: int) -> torch.Tensor:
        g = torch.Generator().manual_seed(seed)
        return adapter.expected_log_prob(torch.tensor([1]), Latent(torch.zeros(1, 3), torch.ones(1, 3)), g)

    assert torch.equal(value(0), value(0))
    assert not torch.equal(value(0), value(1))


GAUSSIAN, SOFTMAX = GaussianLikelihood(), SoftmaxLikelihood(num_classes=3, mixing_weights=False)


@pytest.mark.parametrize(
    ("likelihood", "y", "error", "text"),
    [
        (GAUSSIAN, [1.0, 2.0], TypeError, "y must be a torch.Tensor, got list; convert it with torch.as_tensor"),
        (GAUSSIAN, torch.zeros(3), ValueError, r"shape \[2\] or \[2, 1\], one row for each row of X, got \[3\]"),
        (GAUSSIAN, torch.zeros(2, 2), ValueError, "y must have 1 columns, got 2; .* num_outputs=2"),
        (GAUSSIAN, torch.zeros(2, 1, 1), ValueError, r"got \[2, 1, 1\]; align y with X"),
        (GAUSSIAN, torch.tensor([1.0, torch.nan]), ValueError, "y must be finite, got 1 NaN"),
        (GAUSSIAN, torch.tensor([True, False]), TypeError, "real numbers or integer labels, got torch.bool"),
        (BernoulliLikelihood(), torch.tensor([-1, 1]), ValueError, r"labels 0 and 1, got \[-1.0, 1.0\]; map the two"),
        (PoissonLikelihood(), torch.tensor([0.5, 1.0]), ValueError, r"counts 0, 1, 2, …, got \[0.5, 1.0\]; round"),
        (NegativeBinomialLikelihood(), torch.tensor([-1.0, 1.0]), ValueError, r"counts 0, 1, 2, …, got \[-1.0, 1.0\]"),
        (BetaLikelihood(), torch.tensor([0.5, 1.5]), ValueError, r"between 0 and 1, .*got \[0.5, 1.5\]; scale it"),
        (SOFTMAX, torch.tensor([0.5, -1.0]), ValueError, r"labels from 0 to 2, got .*Gaussian likelihood for real"),
        (SOFTMAX, torch.tensor([0, 3]), ValueError, r"integer labels from 0 to 2, got .*num_classes=4"),
        (SOFTMAX, torch.eye(2), ValueError, r"one label for each row, got shape \[2, 2\]; use y.argmax"),
    ],
)
def test_bad_targets_are_refused(likelihood: Likelihood, y: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        targets(likelihood, y, 2, 1, torch.float32)  # type: ignore[arg-type]


def test_targets_take_the_shape_and_dtype_of_the_model(dtype: torch.dtype) -> None:
    y = targets(GAUSSIAN, torch.tensor([1, 2]), 2, 1, dtype)
    assert y.shape == (2, 1)
    assert y.dtype == dtype
    labels = targets(SOFTMAX, torch.tensor([[1.0], [2.0]]), 2, 3, dtype)
    assert labels.tolist() == [1, 2]


def test_gaussian_noise_has_the_closed_forms(dtype: torch.dtype, generator: torch.Generator) -> None:
    y, mean, log_variance = (torch.randn(3, 4, 2, dtype=dtype, generator=generator) for _ in range(3))
    likelihood, variance = GaussianLikelihood().to(dtype), log_variance.exp()
    likelihood.noise = 0.3
    adapter, at = adapter_of(likelihood), (y[0], Latent(mean, variance))
    normal = torch.distributions.Normal(mean, 0.3**0.5)
    expected = normal.log_prob(y[0]) - variance / (2 * 0.3)
    torch.testing.assert_close(adapter.expected_log_prob(*at), expected.sum(-1))
    marginal = torch.distributions.Normal(mean, (variance + 0.3).sqrt()).log_prob(y[0])
    torch.testing.assert_close(adapter.log_marginal(*at), marginal.sum(-1))


def test_the_probit_is_sharp_far_from_the_boundary_too() -> None:
    factors = adapter_of(BernoulliLikelihood()).fisher_factors(torch.tensor([[-30.0], [30.0]], dtype=torch.float64))
    assert torch.isfinite(factors).all()
    assert (factors > 0).all()


def test_gradients_of_the_gaussian_expectation(generator: torch.Generator) -> None:
    y, mean, log_variance = (torch.randn(3, 4, 2, dtype=torch.float64, generator=generator) for _ in range(3))
    likelihood = GaussianLikelihood().double()

    def value(mean: torch.Tensor, variance: torch.Tensor, raw_noise: torch.Tensor) -> torch.Tensor:
        named = {"likelihood.noise_covar.raw_noise": raw_noise}
        return torch.func.functional_call(Expected(likelihood), named, (y[0], Latent(mean, variance)))

    inputs = (mean, log_variance.exp(), likelihood.raw_noise.detach().clone())
    assert gradcheck(value, tuple(x.requires_grad_() for x in inputs))
    assert gradgradcheck(value, inputs)


class Expected(torch.nn.Module):
    def __init__(self, likelihood: Likelihood) -> None:
        super().__init__()
        self.likelihood = likelihood

    def forward(self, y: torch.Tensor, latent: Latent) -> torch.Tensor:
        return adapter_of(self.likelihood).expected_log_prob(y, latent)


@pytest.mark.parametrize("sd", [0.01, 0.05, 0.2, 1.0])
def test_class_probabilities_of_nearly_known_logits(sd: float, generator: torch.Generator) -> None:
    """Two classes: E[p] is an integral over one difference of logits, which quadrature knows; rows do not mix."""
    mean = torch.randn(30, 2, dtype=torch.float64, generator=generator)
    variance = torch.full_like(mean, sd**2)
    variance[0] = 4.0  # a row that needs more points than the others
    adapter = adapter_of(SoftmaxLikelihood(num_classes=2, num_features=2, mixing_weights=False))
    found = adapter.moments(Latent(mean[None], variance[None]))
    x = torch.linspace(-8, 8, 4_001, dtype=torch.float64)
    weights = (-0.5 * x**2).softmax(0)
    difference = (mean[:, 0] - mean[:, 1])[:, None] + variance.sum(1).sqrt()[:, None] * x
    p = difference.sigmoid()
    exact = (p @ weights, (p.square() @ weights) - (p @ weights).square())
    torch.testing.assert_close(found.mean[:, 0], exact[0], rtol=0, atol=2e-4)
    torch.testing.assert_close(found.epistemic[:, 0], exact[1], rtol=0.05, atol=1e-5)
    alone = adapter.moments(Latent(mean[None, 3:4], variance[None, 3:4]))
    torch.testing.assert_close(alone.mean[0], found.mean[3])
