import pytest
import torch
from gpytorch.likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    Likelihood,
    SoftmaxLikelihood,
    StudentTLikelihood,
)
from gpytorch.likelihoods.poisson_likelihood import PoissonLikelihood

import actgp
from actgp.likelihoods import adapter_of

SOFTMAX = SoftmaxLikelihood(num_classes=3, mixing_weights=False)
OUTLIERS = actgp.ContaminatedGaussianLikelihood(share=0.2)
OUTLIERS.outlier_noise = 4.0
LIKELIHOODS = [
    GaussianLikelihood(),
    OUTLIERS,
    BernoulliLikelihood(),
    StudentTLikelihood(),
    PoissonLikelihood(),
    SOFTMAX,
]


def mixture(likelihood: Likelihood, dtype: torch.dtype = torch.float64, S: int = 3) -> actgp.Prediction:
    g = torch.Generator().manual_seed(0)
    P = 3 if isinstance(likelihood, SoftmaxLikelihood) else 1
    means = torch.randn(S, 4, P, dtype=dtype, generator=g)
    variances = torch.rand(S, 4, P, dtype=dtype, generator=g) + 0.05
    return actgp.Prediction(means, variances, likelihood.to(dtype))


def simulate(prediction: actgp.Prediction, count: int = 200_000) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draws of E[y|f] and Var[y|f] and of y, over components and f."""
    g = torch.Generator().manual_seed(1)
    S, N, P = prediction.component_means.shape
    which = torch.randint(S, (count,), generator=g)
    noise = torch.randn(count, N, P, dtype=prediction.component_means.dtype, generator=g)
    f = prediction.component_means[which] + prediction.component_variances[which].sqrt() * noise
    given = adapter_of(prediction.likelihood).conditional(f)
    if isinstance(prediction.likelihood, SoftmaxLikelihood):
        return given.probs, given.probs * (1 - given.probs), f
    return given.mean, given.variance, f


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda x: type(x).__name__)
def test_moments_against_simulation(likelihood: Likelihood) -> None:
    prediction = mixture(likelihood)
    given_mean, given_variance, _ = (x.detach().squeeze(-1) for x in simulate(prediction))
    error = {"rtol": 0.02, "atol": 0.01}
    torch.testing.assert_close(prediction.mean, given_mean.mean(0), **error)
    torch.testing.assert_close(prediction.aleatoric.detach(), given_variance.mean(0), **error)
    torch.testing.assert_close(prediction.epistemic, given_mean.var(0), **error)
    torch.testing.assert_close(prediction.variance, prediction.aleatoric + prediction.epistemic)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda x: type(x).__name__)
def test_log_prob_is_the_mixtures(likelihood: Likelihood) -> None:
    prediction = mixture(likelihood)
    _, _, f = simulate(prediction)
    y = torch.tensor([0, 1, 1, 0])
    log_probs = adapter_of(likelihood).conditional(f).log_prob(y if likelihood is SOFTMAX else y[:, None].double())
    expected = log_probs.detach().reshape(len(f), 4).exp().mean(0).log()
    torch.testing.assert_close(prediction.log_prob(y).detach(), expected, rtol=0, atol=0.02)


def test_log_prob_of_several_outputs_keeps_them_together_within_a_component() -> None:
    # Two components, far apart in both outputs: y near one of them has half its density, not a quarter.
    means = torch.tensor([[[0.0, 0.0]], [[100.0, 100.0]]], dtype=torch.float64)
    likelihood = GaussianLikelihood().double()
    prediction = actgp.Prediction(means, torch.zeros_like(means), likelihood)
    single = actgp.Prediction(means[:1], torch.zeros_like(means[:1]), likelihood)
    y = torch.zeros(1, 2, dtype=torch.float64)
    torch.testing.assert_close(prediction.log_prob(y), single.log_prob(y) + torch.tensor(0.5).double().log())
    student = StudentTLikelihood().double()
    both = actgp.Prediction(means, torch.full_like(means, 1e-6), student)
    alone = actgp.Prediction(means[:1], torch.full_like(means[:1], 1e-6), student)
    torch.testing.assert_close(
        both.log_prob(y), alone.log_prob(y) + torch.tensor(0.5).double().log(), rtol=1e-3, atol=0
    )


def test_intervals_hold_their_probability() -> None:
    prediction = mixture(GaussianLikelihood())
    lower, upper = prediction.interval(0.9)
    sd = (prediction.component_variances + prediction.likelihood.noise.detach()).sqrt()
    normal = torch.distributions.Normal(prediction.component_means, sd)
    for end, p in ((lower, 0.05), (upper, 0.95)):
        torch.testing.assert_close(normal.cdf(end[:, None]).mean(0)[:, 0], torch.full((4,), p, dtype=torch.float64))


def test_intervals_hold_their_probability_among_outliers() -> None:
    prediction = mixture(OUTLIERS)
    lower, upper = prediction.interval(0.9)
    noise = OUTLIERS.noise.item()
    narrow, wide = (
        torch.distributions.Normal(prediction.component_means, (prediction.component_variances + v).sqrt())
        for v in (noise, noise + 4.0)
    )
    for end, p in ((lower, 0.05), (upper, 0.95)):
        held = (0.8 * narrow.cdf(end[:, None]) + 0.2 * wide.cdf(end[:, None])).mean(0)[:, 0]
        torch.testing.assert_close(held, torch.full((4,), p, dtype=torch.float64))


def test_a_mixture_of_normals_needs_gaussian_noise() -> None:
    with pytest.raises(ValueError, match="got StudentTLikelihood; use mean"):
        mixture(StudentTLikelihood()).normal_components()


@pytest.mark.parametrize("likelihood", [StudentTLikelihood(), PoissonLikelihood()], ids=["student", "poisson"])
def test_sampled_intervals_hold_about_their_probability(likelihood: Likelihood) -> None:
    prediction = mixture(likelihood)
    lower, upper = prediction.interval(0.9)
    _, _, f = simulate(prediction)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        y = adapter_of(likelihood).conditional(f).sample()[..., 0]
    inside = ((y >= lower) & (y <= upper)).double().mean(0)
    assert (inside > 0.87).all()
    if isinstance(likelihood, StudentTLikelihood):
        assert (inside < 0.93).all()


def test_intervals_leave_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    first = mixture(StudentTLikelihood()).interval(0.5)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first[0], mixture(StudentTLikelihood()).interval(0.5)[0])


def test_latent_moments_are_the_mixtures() -> None:
    prediction = mixture(BernoulliLikelihood())
    _, _, f = simulate(prediction)
    torch.testing.assert_close(prediction.latent_mean, f.mean(0)[:, 0], rtol=0, atol=0.02)
    torch.testing.assert_close(prediction.latent_variance, f.var(0)[:, 0], rtol=0.02, atol=0)


def test_probabilities_sum_to_one(dtype: torch.dtype) -> None:
    for likelihood, classes in ((BernoulliLikelihood(), 2), (SOFTMAX, 3)):
        probabilities = mixture(likelihood, dtype).probabilities
        assert probabilities.shape == (4, classes)
        assert probabilities.dtype == dtype
        torch.testing.assert_close(probabilities.sum(-1), torch.ones(4, dtype=dtype))


def test_bernoulli_probability_is_the_closed_form() -> None:
    prediction = mixture(BernoulliLikelihood(), S=1)
    z = prediction.component_means / (1 + prediction.component_variances).sqrt()
    torch.testing.assert_close(prediction.mean, torch.special.ndtr(z)[0, :, 0], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(prediction.log_prob(torch.ones(4)).exp(), prediction.mean, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("variance", [0.01, 1.0, 9.0])
def test_narrow_noise_under_a_wide_latent(variance: float) -> None:
    likelihood = StudentTLikelihood().double()
    likelihood.noise = 0.01
    prediction = actgp.Prediction(torch.zeros(1, 1, 1).double(), torch.full((1, 1, 1), variance).double(), likelihood)
    f = torch.linspace(-30, 30, 2_000_001, dtype=torch.float64)
    density = torch.distributions.StudentT(likelihood.deg_free, f, likelihood.noise.sqrt()).log_prob(torch.tensor(0.23))
    prior = torch.distributions.Normal(0.0, variance**0.5).log_prob(f)
    expected = (density + prior).logsumexp(0) + torch.log(f[1] - f[0])
    assert prediction.log_prob(torch.tensor([0.23])).item() == pytest.approx(expected.item(), abs=1e-4)


@pytest.mark.parametrize("variance", [0.1, 10.0, 100.0])
def test_probabilities_and_densities_of_two_classes_agree(variance: float) -> None:
    prediction = actgp.Prediction(torch.ones(2, 1, 1), torch.full((2, 1, 1), variance), BernoulliLikelihood())
    torch.testing.assert_close(prediction.log_prob(torch.ones(1)).exp(), prediction.probabilities[:, 1])
    torch.testing.assert_close(prediction.variance, prediction.mean * (1 - prediction.mean))


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda x: type(x).__name__)
def test_predictions_stay_what_they_were_and_carry_no_gradient(likelihood: Likelihood) -> None:
    prediction = mixture(likelihood)
    before = prediction.log_prob(torch.tensor([0, 1, 1, 0]))
    for parameter in likelihood.parameters():
        with torch.no_grad():
            parameter.add_(1.0)
    assert torch.equal(prediction.log_prob(torch.tensor([0, 1, 1, 0])), before)
    assert not before.requires_grad
    assert not prediction.variance.requires_grad
    for parameter in likelihood.parameters():
        with torch.no_grad():
            parameter.sub_(1.0)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda x: type(x).__name__)
def test_chunks_change_nothing(likelihood: Likelihood, monkeypatch: pytest.MonkeyPatch) -> None:
    y = torch.tensor([0, 1, 1, 0])
    whole = mixture(likelihood)
    mean, variance, log_prob = whole.mean, whole.variance, whole.log_prob(y)
    monkeypatch.setattr("actgp.likelihoods.numerics.CHUNK", 1)  # a row at a time
    parts = mixture(likelihood)
    torch.testing.assert_close(parts.mean, mean)
    torch.testing.assert_close(parts.variance, variance)
    torch.testing.assert_close(parts.log_prob(y), log_prob)


def test_what_a_likelihood_does_not_have_is_refused() -> None:
    with pytest.raises(
        ValueError, match="probabilities need a likelihood of classes, got GaussianLikelihood; use mean"
    ):
        _ = mixture(GaussianLikelihood()).probabilities
    with pytest.raises(
        ValueError, match="class labels have no interval, got a likelihood of classes; use probabilities"
    ):
        mixture(SOFTMAX).interval()
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 95.0; pass e.g. 0.95"):
        mixture(GaussianLikelihood()).interval(95.0)


def test_each_component_is_integrated_by_itself(generator: torch.Generator) -> None:
    """Components that differ much, each of them wide: the error of one would not cancel against another's."""
    likelihood = SoftmaxLikelihood(num_classes=3, mixing_weights=False)
    mean = 3.0 * torch.randn(32, 20, 3, dtype=torch.float64, generator=generator)
    noise = torch.randn(20_000, 1, 20, 3, dtype=torch.float64, generator=generator)
    expected = torch.stack([(part + 3.0 * noise).softmax(-1).mean((0, 1)) for part in mean]).mean(0)
    prediction = actgp.Prediction(mean, torch.full_like(mean, 9.0), likelihood)
    torch.testing.assert_close(prediction.probabilities, expected, atol=6e-3, rtol=0)


def test_softmax_moments_are_those_of_the_general_way(dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(0)
    mean, variance = torch.randn(3, 40, 4, generator=g).to(dtype), torch.rand(3, 40, 4, generator=g).to(dtype)
    plain = SoftmaxLikelihood(num_classes=4, num_features=4, mixing_weights=False)
    mixed = SoftmaxLikelihood(num_classes=4, num_features=4)
    with torch.no_grad():
        mixed.mixing_weights.copy_(torch.eye(4))
    ours, general = (actgp.Prediction(mean, variance, likelihood) for likelihood in (plain, mixed))
    for name in ("probabilities", "aleatoric", "epistemic"):
        torch.testing.assert_close(getattr(ours, name), getattr(general, name), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["DeepGP", "SGPR", "GPR"])
def test_predictions_that_are_not_finite_are_refused(kind: str) -> None:
    X = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    kernel, features = actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 5)
    models = {
        "DeepGP": lambda: actgp.deep_gp(2, num_layers=2, num_inducing=5).double(),
        "SGPR": lambda: actgp.SGPR(X, X[:, 0], kernel, features),
        "GPR": lambda: actgp.GPR(X, X[:, 0], kernel),
    }
    model = models[kind]()
    far = X.clone()
    far[3] = 1e200
    with pytest.raises(ValueError, match=r"must be finite, got NaN or infinity at row 3 of X, .* 1e.200 .*standardise"):
        model.predict(far)
    assert torch.isfinite(model.predict(X).mean).all()
