from math import log, nan, pi

import pytest
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import GaussianLikelihood
from numpy.polynomial.hermite import hermgauss
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import norm
from torch.autograd import gradcheck

import actgp
from actgp.likelihoods import Latent, adapter_of
from actgp.persistence import describe, rebuild

SHARE, NOISE, OUTLIERS = 0.03, 0.25, 9.0


def with_outliers(share: float = SHARE) -> actgp.ContaminatedGaussianLikelihood:
    likelihood = actgp.ContaminatedGaussianLikelihood(share=share).double()
    likelihood.noise, likelihood.outlier_noise = NOISE, OUTLIERS
    return likelihood


def density(y: float, f: float, variance: float = 0.0) -> float:
    """By scipy, of y about f with a Gaussian part of its own."""
    sd, wide = (NOISE + variance) ** 0.5, (NOISE + OUTLIERS + variance) ** 0.5
    return float((1 - SHARE) * norm.pdf(y, f, sd) + SHARE * norm.pdf(y, f, wide))


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).unsqueeze(-1)


@pytest.mark.parametrize("y", [0.3, -2.0, 40.0])
def test_the_density_is_the_mixtures(y: float) -> None:
    adapter = adapter_of(with_outliers())
    expected = torch.tensor([density(y, 0.1)], dtype=torch.float64).log()
    certain = Latent(column(0.1), column(0.0))
    torch.testing.assert_close(adapter.conditional_log_prob(column(0.1), column(y)), expected)
    torch.testing.assert_close(adapter.log_marginal(column(y), certain), expected)
    torch.testing.assert_close(adapter.expected_log_prob(column(y), certain), expected)


@pytest.mark.parametrize("y", [0.3, -2.0, 40.0])
def test_what_training_maximises_against_quadrature(y: float) -> None:
    adapter, mean, variance = adapter_of(with_outliers()), 0.4, 0.3
    at = (column(y), Latent(column(mean), column(variance)))
    marginal = torch.tensor([density(y, mean, variance)], dtype=torch.float64).log()
    torch.testing.assert_close(adapter.log_marginal(*at), marginal)

    x, weights = hermgauss(200)
    f = mean + (2 * variance) ** 0.5 * x
    expected = sum(w * log(density(y, at_f)) for w, at_f in zip(weights, f, strict=True)) / pi**0.5
    bound = adapter.expected_log_prob(*at).item()
    assert bound <= expected + 1e-9
    means = [norm.logpdf(y, mean, s**0.5) - variance / (2 * s) for s in (NOISE, NOISE + OUTLIERS)]  # E[log p_c(y | f)]

    def of_indicator(q: float) -> float:
        weights = ((1 - q, 1 - SHARE), (q, SHARE))
        return sum(q_c * (m + log(w_c / q_c)) for (q_c, w_c), m in zip(weights, means, strict=True))

    best = minimize_scalar(lambda logit: -of_indicator(expit(logit)), bounds=(-30, 30), method="bounded")
    assert bound == pytest.approx(-best.fun, abs=1e-6)
    gaussian = GaussianLikelihood().double()
    gaussian.noise = NOISE
    assert (
        bound > adapter_of(gaussian).expected_log_prob(*at).item() - SHARE * 2
    )  # never much below that without outliers


def test_gradients_of_all_that_enters() -> None:
    likelihood = with_outliers()
    y, mean, variance = column(0.3, 9.0), column(0.1, 0.2).requires_grad_(), column(0.2, 0.5).requires_grad_()
    raw = [p.detach().clone().requires_grad_() for p in (likelihood.raw_noise, likelihood.raw_outlier_noise)]

    def value(f: torch.Tensor, v: torch.Tensor, noise: torch.Tensor, outliers: torch.Tensor) -> torch.Tensor:
        state = {"likelihood.noise_covar.raw_noise": noise, "likelihood.raw_outlier_noise": outliers}
        return torch.func.functional_call(Both(likelihood, y), state, (f, v))

    assert gradcheck(value, (mean, variance, *raw))


class Both(torch.nn.Module):
    def __init__(self, likelihood: actgp.ContaminatedGaussianLikelihood, y: torch.Tensor) -> None:
        super().__init__()
        self.likelihood, self.y = likelihood, y

    def forward(self, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        adapter, at = adapter_of(self.likelihood), (self.y, Latent(mean, variance))
        return torch.stack([adapter.log_marginal(*at), adapter.expected_log_prob(*at)])


def test_information_against_quadrature() -> None:
    def integrand(y: float) -> float:
        wide = NOISE + OUTLIERS
        a, b = norm.pdf(y, 0.0, NOISE**0.5) * (1 - SHARE), norm.pdf(y, 0.0, wide**0.5) * SHARE
        slope = -y * (a / NOISE + b / wide)
        return float(slope**2 / (a + b))

    expected, _ = quad(integrand, -25.0, 25.0, points=[-2.0, 0.0, 2.0], limit=500)
    (factor,) = adapter_of(with_outliers()).fisher_factors(column(0.7)).flatten().tolist()
    assert factor**2 == pytest.approx(expected, rel=1e-8)
    assert factor**2 < 1 / NOISE


def test_without_outliers_it_is_gaussian() -> None:
    likelihood = GaussianLikelihood().double()
    likelihood.noise = NOISE
    rare, gaussian = adapter_of(with_outliers(share=1e-14)), adapter_of(likelihood)
    at = (column(0.3, -1.0), Latent(column(0.1, 0.2), column(0.2, 0.5)))
    torch.testing.assert_close(rare.log_marginal(*at), gaussian.log_marginal(*at))
    torch.testing.assert_close(rare.expected_log_prob(*at), gaussian.expected_log_prob(*at))
    torch.testing.assert_close(rare.fisher_factors(column(0.0)), gaussian.fisher_factors(column(0.0)))


def test_draws_have_the_variance_of_the_mixture() -> None:
    torch.manual_seed(0)
    drawn = adapter_of(with_outliers()).conditional(column(1.0).expand(200_000, 1)).sample()
    expected = NOISE + SHARE * OUTLIERS
    assert drawn.mean().item() == pytest.approx(1.0, abs=0.01)
    assert drawn.var().item() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("share", [0.0, 1.0, nan])
def test_shares_that_make_no_sense_are_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share must"):
        actgp.ContaminatedGaussianLikelihood(share=share)


def test_the_share_stays() -> None:
    with pytest.raises(AttributeError):
        with_outliers().share = 0.5  # type: ignore[misc]


def test_a_file_with_a_share_that_makes_no_sense_is_refused() -> None:
    description = describe(actgp.deep_gp(2, num_layers=1, num_inducing=4))
    description.document["likelihood"]["share"] = 1.5
    with pytest.raises(ValueError, match="share must lie between 0 and 1, got 1.5"):
        rebuild(description.document, description.tensors)


@pytest.mark.parametrize("noise", [0.0, -1.0, nan])
def test_outliers_without_noise_are_refused_and_change_nothing(noise: float) -> None:
    likelihood = with_outliers()
    with pytest.raises(ValueError, match="outlier_noise must"):
        likelihood.outlier_noise = noise
    assert likelihood.outlier_noise.item() == pytest.approx(OUTLIERS)


def test_gpytorch_finds_the_same_behind_its_own_interface(generator: torch.Generator) -> None:
    likelihood, y = with_outliers(), column(0.3, 9.0)[:, 0]
    mean, B = torch.randn(2, dtype=torch.float64, generator=generator), torch.eye(2, dtype=torch.float64) + 0.3
    f = MultivariateNormal(mean, B @ B)
    adapter, at = adapter_of(likelihood), (y[:, None], Latent(mean[:, None], f.variance[:, None]))
    torch.testing.assert_close(likelihood.log_marginal(y, f), adapter.log_marginal(*at))
    torch.testing.assert_close(likelihood(f).log_prob(y), adapter.log_marginal(*at))
    torch.testing.assert_close(likelihood.expected_log_prob(y, f), adapter.expected_log_prob(*at))


def test_a_single_value_has_a_single_density() -> None:
    likelihood, f = actgp.ContaminatedGaussianLikelihood(), torch.distributions.Normal(torch.tensor(0.3), 0.2)
    assert likelihood.expected_log_prob(torch.tensor(0.1), f).shape == ()
    assert likelihood.log_marginal(torch.tensor(0.1), f).shape == ()


def test_exact_regression_refuses_outliers(generator: torch.Generator) -> None:
    X = torch.randn(5, 2, generator=generator)
    with pytest.raises(TypeError, match="got ContaminatedGaussianLikelihood; use SVGP"):
        actgp.GPR(X, X[:, 0], actgp.ArcCosine(2), actgp.ContaminatedGaussianLikelihood())
    with pytest.raises(TypeError, match="got ContaminatedGaussianLikelihood; use SVGP"):
        Z = actgp.InducingPoints(X[:2])
        actgp.SGPR(X, X[:, 0], actgp.ArcCosine(2), Z, actgp.ContaminatedGaussianLikelihood())


def test_an_outlier_bends_a_function_less(generator: torch.Generator) -> None:
    X = torch.linspace(-2, 2, 100, dtype=torch.float64).unsqueeze(-1)
    truth = X[:, 0].sin()
    y = truth + 0.05 * torch.randn(100, dtype=torch.float64, generator=generator)
    y[::25] += 3.0
    steps = {"network_steps": 100, "num_steps": 100, "learning_rate": 0.05, "natural_rate": 0.5}
    recipe = actgp.Recipe(**steps, objective="elbo", kl_weight=1.0, validation=0.0)
    errors = {}
    for likelihood in (GaussianLikelihood(), actgp.ContaminatedGaussianLikelihood(share=0.05)):
        g = torch.Generator().manual_seed(0)
        model = actgp.deep_gp(1, num_layers=1, num_inducing=8, likelihood=likelihood, generator=g).double()
        model.likelihood.noise = 0.01
        actgp.fit(model, X, y, recipe, generator=g, progress=False)
        errors[type(likelihood)] = (model.predict(X).mean - truth).square().mean().sqrt().item()
    assert errors[actgp.ContaminatedGaussianLikelihood] < 0.5 * errors[GaussianLikelihood]
