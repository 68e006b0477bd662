"""Every likelihood that gpytorch ships, and ordinal ones, which some versions have: right, or refused by name."""

import warnings
from collections.abc import Callable
from functools import cache

import gpytorch.likelihoods as gpl
import pytest
import torch
from gpytorch.likelihoods import Likelihood, SoftmaxLikelihood
from likelihood_contract import check_likelihood
from torch import Tensor
from torch.autograd import gradcheck
from torch.distributions import Categorical

import actgp
from actgp.likelihoods import Latent, OneDimensionalLikelihood, adapter_of, targets

EDGES = (-1.0, 0.2, 1.5)
C = len(EDGES) + 1
S, N = 3, 5


class Ordinal(OneDimensionalLikelihood):
    """P(y ≤ k | f) = Φ(a_k − f)."""

    def __init__(self, edges: tuple[float, ...] = EDGES) -> None:
        super().__init__()
        self.edges = torch.nn.Parameter(torch.tensor(edges))

    def forward(self, function_samples: Tensor, *args: object, **kwargs: object) -> Categorical:
        below = torch.special.ndtr(self.edges - function_samples.unsqueeze(-1))  # [.., C − 1]
        ends = torch.zeros_like(below[..., :1]), torch.ones_like(below[..., :1])
        return Categorical(probs=torch.cat([ends[0], below, ends[1]], -1).diff(dim=-1))


class OrdinalBySampling(Likelihood):
    """The same as a likelihood that gpytorch integrates by sampling."""

    def __init__(self) -> None:
        super().__init__()
        self.ordinal = Ordinal()

    def forward(self, function_samples: Tensor, *args: object, **kwargs: object) -> Categorical:
        return self.ordinal(function_samples)


def with_missing() -> Likelihood:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return gpl.GaussianLikelihoodWithMissingObs()


def outliers() -> Likelihood:
    likelihood = actgp.ContaminatedGaussianLikelihood(share=0.2)
    likelihood.outlier_noise = 2.0
    return likelihood


# Of P outputs
ACCEPTED: dict[str, Callable[[int], Likelihood]] = {
    "BernoulliLikelihood": lambda P: gpl.BernoulliLikelihood(),
    "BernoulliLogitLikelihood": lambda P: actgp.BernoulliLogitLikelihood(),
    "BetaLikelihood": lambda P: gpl.BetaLikelihood(),
    "ContaminatedGaussianLikelihood": lambda P: outliers(),
    "GaussianLikelihood": lambda P: gpl.GaussianLikelihood(),
    "GaussianLikelihoodWithMissingObs": lambda P: with_missing(),
    "LaplaceLikelihood": lambda P: gpl.LaplaceLikelihood(),
    "NegativeBinomialLikelihood": lambda P: gpl.NegativeBinomialLikelihood(),
    "NegativeBinomialLikelihood of failures": lambda P: gpl.NegativeBinomialLikelihood(num_failures_param=True),
    "Ordinal": lambda P: Ordinal(),
    "Ordinal by sampling": lambda P: OrdinalBySampling(),
    "PoissonLikelihood": lambda P: gpl.PoissonLikelihood(),
    "SoftmaxLikelihood": lambda P: SoftmaxLikelihood(num_classes=P, mixing_weights=False),
    "SoftmaxLikelihood with weights": lambda P: SoftmaxLikelihood(num_features=P, num_classes=C),
    "StudentTLikelihood": lambda P: gpl.StudentTLikelihood(),
}
if hasattr(gpl, "OrdinalLikelihood"):
    ACCEPTED["OrdinalLikelihood"] = lambda P: gpl.OrdinalLikelihood(torch.tensor(EDGES))
REFUSED: dict[str, Callable[[], object]] = {
    "DirichletClassificationLikelihood": lambda: gpl.DirichletClassificationLikelihood(torch.tensor([0, 1, 1])),
    "FixedNoiseGaussianLikelihood": lambda: gpl.FixedNoiseGaussianLikelihood(torch.ones(N)),
    "HadamardGaussianLikelihood": lambda: gpl.HadamardGaussianLikelihood(2),
    "HeteroskedasticNoise": lambda: gpl.HeteroskedasticNoise(None),
    "LikelihoodList": lambda: gpl.LikelihoodList(gpl.GaussianLikelihood(), gpl.GaussianLikelihood()),
    "MultitaskGaussianLikelihood": lambda: gpl.MultitaskGaussianLikelihood(2),
}
EXACT = [name for name in ACCEPTED if not name.startswith("Softmax") and not name.endswith("by sampling")]
CASES = [(name, P) for name in ACCEPTED for P in (1, 2) if (name, P) != ("SoftmaxLikelihood", 1)]


def mixture(name: str, P: int, dtype: torch.dtype = torch.float64) -> actgp.Prediction:
    g = torch.Generator().manual_seed(0)
    means = torch.randn(S, N, P, generator=g).to(dtype)
    variances = (torch.rand(S, N, P, generator=g) + 0.05).to(dtype)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # weights of a softmax
        return actgp.Prediction(means, variances, ACCEPTED[name](P))


@cache
def drawn(name: str, P: int, count: int = 100_000) -> tuple[Tensor, Tensor]:
    """E[y | f], where it has a formula, and y; the latter one-hot for classes, as moments are."""
    prediction = mixture(name, P)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        which = torch.randint(S, (count,))
        noise = torch.randn(count, N, P, dtype=torch.float64)
        f = prediction.component_means[which] + prediction.component_variances[which].sqrt() * noise
        given = adapter_of(prediction.likelihood).conditional(f)
        y = given.sample()
    if isinstance(prediction.likelihood, SoftmaxLikelihood):
        return given.probs, torch.nn.functional.one_hot(y, given.probs.shape[-1]).double()
    if isinstance(given, Categorical):
        return given.probs @ torch.arange(C, dtype=torch.float64), y.double()
    return given.mean, y.double()


def outcomes(name: str, P: int) -> Tensor:
    """Targets that the likelihood takes, [N, P], or [N] for classes."""
    y = torch.arange(N * P).reshape(N, P) % 2
    if name.startswith("Softmax"):
        return y[:, 0]
    return y * 0.4 + 0.3 if name.startswith("Beta") else y


def test_no_likelihood_of_gpytorch_is_left_out() -> None:
    names = {name for name in gpl.__all__ if not name.startswith("_")} - {"Likelihood"}
    assert names <= {name.split()[0] for name in (*ACCEPTED, *REFUSED)}


@pytest.mark.parametrize("name", ACCEPTED)
def test_each_keeps_the_contract(name: str, dtype: torch.dtype) -> None:
    error = 0.02 if name.startswith("Laplace") else 1e-3  # log p has a kink
    bound = name.startswith("Contaminated")
    check_likelihood(ACCEPTED[name](2), outcomes(name, 2)[:3], 2, dtype=dtype, error=error, bound=bound)


@pytest.mark.parametrize("name", EXACT)
def test_marginals_of_a_batch_are_differentiable(name: str, generator: torch.Generator) -> None:
    adapter = adapter_of(ACCEPTED[name](1).double())
    mean = torch.randn(2, N, 1, dtype=torch.float64, generator=generator).requires_grad_()
    variance = (torch.rand(2, N, 1, dtype=torch.float64, generator=generator) + 0.1).requires_grad_()
    y = targets(adapter.likelihood, outcomes(name, 1), N, 1, torch.float64)
    assert adapter.log_marginal(y, Latent(mean, variance)).shape == (2, N)
    assert gradcheck(lambda m, v: adapter.log_marginal(y, Latent(m, v)), (mean, variance))


@pytest.mark.parametrize(("name", "P"), CASES)
def test_moments_are_those_of_draws(name: str, P: int) -> None:
    prediction = mixture(name, P)
    given_mean, y = (values.detach() for values in drawn(name, P))
    shape = y.shape[1:] if y.shape[-1] > 1 else y.shape[1:-1]
    error = {"rtol": 0.03, "atol": 0.015}
    for found, expected in (
        (prediction.mean, y.mean(0)),
        (prediction.variance, y.var(0)),
        (prediction.epistemic, given_mean.var(0)),
        (prediction.aleatoric, y.var(0) - given_mean.var(0)),
    ):
        assert found.shape == shape
        torch.testing.assert_close(found, expected.reshape(shape), **error)
    torch.testing.assert_close(prediction.aleatoric + prediction.epistemic, prediction.variance)


@pytest.mark.parametrize(("name", "P"), CASES)
def test_densities_of_outcomes_are_those_of_draws(name: str, P: int) -> None:
    prediction, y = mixture(name, P), outcomes(name, P)
    g = torch.Generator().manual_seed(2)
    noise = torch.randn(40_000, S, N, P, dtype=torch.float64, generator=g)
    f = prediction.component_means + prediction.component_variances.sqrt() * noise  # [K, S, N, P]
    given = (
        adapter_of(prediction.likelihood)
        .conditional(f)
        .log_prob(targets(prediction.likelihood, y, N, P, torch.float64))
    )
    expected = (given.sum(-1) if given.ndim == 4 else given).exp().mean((0, 1)).log()
    found = prediction.log_prob(y)
    assert found.shape == (N,)
    torch.testing.assert_close(found, expected.detach(), rtol=0, atol=0.02)


@pytest.mark.parametrize(("name", "P"), CASES)
def test_intervals_hold_their_probability_or_are_refused(name: str, P: int) -> None:
    prediction = mixture(name, P)
    if name.startswith(("Softmax", "Bernoulli")):
        with pytest.raises(ValueError, match="class labels have no interval"):
            prediction.interval(0.8)
        return
    lower, upper = prediction.interval(0.8)
    y = drawn(name, P)[1].reshape(-1, *lower.shape)
    assert lower.shape == upper.shape == ((N,) if P == 1 else (N, P))
    assert lower.dtype == upper.dtype == torch.float64
    assert (((y >= lower) & (y <= upper)).double().mean(0) > 0.77).all()
    assert ((y < lower).double().mean(0) < 0.12).all()
    assert ((y > upper).double().mean(0) < 0.12).all()


@pytest.mark.parametrize(("name", "P"), CASES)
def test_only_labels_have_probabilities(name: str, P: int) -> None:
    prediction = mixture(name, P)
    if not name.startswith(("Softmax", "Bernoulli", "Ordinal")):
        with pytest.raises(ValueError, match="probabilities need a likelihood of classes"):
            _ = prediction.probabilities
        return
    classes = {"SoftmaxLikelihood": P, "BernoulliLikelihood": 2, "BernoulliLogitLikelihood": 2}.get(name, C)
    p = prediction.probabilities
    assert p.shape == ((N, classes) if P == 1 or name.startswith("Softmax") else (N, P, classes))
    torch.testing.assert_close(p.sum(-1), torch.ones(p.shape[:-1], dtype=torch.float64))


def test_a_single_class_is_certain() -> None:
    prediction = mixture("SoftmaxLikelihood", 1)
    torch.testing.assert_close(prediction.probabilities, torch.ones(N, 1, dtype=torch.float64))
    torch.testing.assert_close(prediction.log_prob(torch.zeros(N)), torch.zeros(N, dtype=torch.float64))


@pytest.mark.parametrize("name", ACCEPTED)
def test_each_can_be_trained(name: str) -> None:
    g = torch.Generator().manual_seed(0)
    X = torch.linspace(-1.0, 1.0, N).unsqueeze(-1)
    model = actgp.deep_gp(1, 2, num_layers=2, num_inducing=4, likelihood=ACCEPTED[name](2), generator=g)
    recipe = actgp.Recipe(network_steps=2, num_steps=2, validation=0.0)
    result = actgp.fit(model, X, outcomes(name, 2), recipe, generator=g, progress=False)
    assert torch.isfinite(torch.tensor(result.network_objectives + result.objectives)).all()
    assert model.predict(X, 2).log_prob(outcomes(name, 2)).shape == (N,)


@pytest.mark.parametrize("name", REFUSED)
def test_the_others_are_refused_by_name(name: str) -> None:
    with pytest.raises(
        (TypeError, ValueError), match=rf"got {name}|^{name} must give a distribution of shape \[2, 2\]"
    ):
        actgp.deep_gp(1, 2, num_layers=1, num_inducing=4, likelihood=REFUSED[name]())  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "kind",
    [gpl.BetaLikelihood, gpl.LaplaceLikelihood, gpl.NegativeBinomialLikelihood, gpl.StudentTLikelihood],
    ids=lambda kind: kind.__name__,
)
def test_parameters_of_a_batch_are_refused(kind: type[Likelihood], size: int) -> None:
    likelihood = kind(batch_shape=torch.Size([size]))
    with pytest.raises(
        ValueError, match=rf"{kind.__name__} must give .* one y for each, got .*; leave out batch_shape"
    ):
        actgp.deep_gp(1, 2, num_layers=1, num_inducing=4, likelihood=likelihood)


def exact_probabilities(prediction: actgp.Prediction) -> Tensor:
    """∫ Φ(a − f) N(f; μ, v) df = Φ((a − μ) / √(1 + v)), [S, N, P, C]."""
    edges = torch.tensor([-torch.inf, *EDGES, torch.inf], dtype=torch.float64)
    mean, variance = (values.unsqueeze(-1) for values in (prediction.component_means, prediction.component_variances))
    return torch.special.ndtr((edges - mean) / (1 + variance).sqrt()).diff(dim=-1)


@pytest.mark.parametrize("P", [1, 2])
def test_ordinal_probabilities_densities_and_ends_are_exact(P: int) -> None:
    prediction = mixture("Ordinal", P)
    components = exact_probabilities(prediction)
    p = components.mean(0)  # [N, P, C]
    found = prediction.probabilities
    torch.testing.assert_close(found, p.reshape(found.shape), rtol=1e-6, atol=1e-7)  # edges are float32's
    labels = torch.arange(C, dtype=torch.float64)
    torch.testing.assert_close(prediction.mean, found @ labels)
    torch.testing.assert_close(prediction.variance, found @ labels.square() - (found @ labels).square())
    y = torch.arange(N * P).reshape(N, P) % C
    each = components.gather(-1, y.expand(S, N, P).unsqueeze(-1)).squeeze(-1)  # [S, N, P]
    torch.testing.assert_close(prediction.log_prob(y), each.prod(-1).mean(0).log(), rtol=1e-6, atol=1e-6)
    for level in (0.5, 0.9, 1 - 1e-9):
        lower, upper = (end.reshape(N, P, 1) for end in prediction.interval(level))
        assert ((p * (labels < lower)).sum(-1) < (1 - level) / 2).all()
        assert ((p * (labels <= lower)).sum(-1) >= (1 - level) / 2).all()
        assert ((p * (labels < upper)).sum(-1) < (1 + level) / 2).all()
        assert ((p * (labels <= upper)).sum(-1) >= (1 + level) / 2 - 1e-12).all()


def test_ordinal_predictions_are_of_the_models_dtype(dtype: torch.dtype) -> None:
    prediction = mixture("Ordinal", 1, dtype)
    for values in (prediction.mean, prediction.variance, prediction.probabilities, *prediction.interval(0.9)):
        assert values.dtype == dtype
    labels = torch.cat(prediction.interval(1 - 1e-7))  # in float32 the probabilities add up to less than that
    assert ((labels >= 0) & (labels < C)).all()


def test_chunks_change_no_ordinal_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mixture("Ordinal", 2)
    expected = (whole.mean, whole.variance, whole.probabilities, *whole.interval(0.7))
    monkeypatch.setattr("actgp.likelihoods.numerics.CHUNK", 1)  # a row at a time
    parts = mixture("Ordinal", 2)
    for found, values in zip(
        (parts.mean, parts.variance, parts.probabilities, *parts.interval(0.7)), expected, strict=True
    ):
        torch.testing.assert_close(found, values)


def test_training_finds_ordered_labels() -> None:
    g = torch.Generator().manual_seed(0)
    X = torch.rand(300, 1, generator=g) * 4 - 2
    y = torch.bucketize(2 * X[:, 0] + 0.1 * torch.randn(300, generator=g), torch.tensor(EDGES))
    model = actgp.deep_gp(1, num_layers=1, num_inducing=10, likelihood=Ordinal(), generator=g)
    actgp.fit(model, X, y, actgp.Recipe(network_steps=300, num_steps=100), generator=g, progress=False)
    prediction = model.predict(X)
    assert (prediction.mean - y).abs().mean() < 0.2
    assert (prediction.probabilities.argmax(-1) == y).double().mean() > 0.85


@pytest.mark.parametrize("wrong", [-1.0, 0.5, 4.0])
def test_targets_that_are_no_ordered_labels_are_refused(wrong: float) -> None:
    y = torch.tensor([0.0, 1.0, 2.0, 3.0, wrong])
    expected = r"y must hold ordered labels from 0 to 3, got \[.*\]; relabel, or build the likelihood with"
    with pytest.raises(ValueError, match=expected):
        mixture("Ordinal", 1).log_prob(y)
    model = actgp.deep_gp(1, num_layers=1, num_inducing=4, likelihood=Ordinal())
    with pytest.raises(ValueError, match=expected):
        actgp.fit(model, torch.rand(5, 1), y, progress=False)
