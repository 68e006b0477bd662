"""Noise that depends on what the last layer is given."""

from math import exp, log

import pytest
import torch
from gpytorch.constraints import GreaterThan, Interval, LessThan
from gpytorch.likelihoods import GaussianLikelihood
from torch.autograd import gradcheck

import actgp
from actgp.likelihoods import Latent, adapter_of
from actgp.likelihoods.contaminated import ContaminatedAdapter
from actgp.persistence import describe, rebuild
from actgp.training.data import TensorBatches
from actgp.training.objectives import posterior_objective
from actgp.training.warm_start import warm_start

SHARE, NOISE, OUTLIERS, BOUND = 0.03, 0.25, 9.0, 0.01


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


def varying(slopes: list[float] | None) -> actgp.ContaminatedGaussianLikelihood:
    likelihood = actgp.ContaminatedGaussianLikelihood(
        noise_constraint=GreaterThan(BOUND), share=SHARE, input_dim=None if slopes is None else len(slopes)
    ).double()
    likelihood.noise, likelihood.outlier_noise = NOISE, OUTLIERS
    if slopes is not None:
        with torch.no_grad():
            likelihood.slopes.copy_(torch.tensor(slopes))
    return likelihood


def noise_variance(
    likelihood: actgp.ContaminatedGaussianLikelihood, relative: torch.Tensor | None = None
) -> torch.Tensor:
    return adapter_of(likelihood).noise_variance(relative)


def deep(slopes: list[float] | None = None, num_layers: int = 2, num_outputs: int = 1) -> actgp.DeepGP:
    likelihood = varying([0.8, -0.5] if slopes is None else slopes)
    model = actgp.deep_gp(2, num_outputs, num_layers, 12, likelihood=likelihood, generator=generator()).double()
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.raw_mean.normal_(0.0, 0.3, generator=generator(2))
    return model


def test_relative_noise_follows_the_inputs_within_bounds() -> None:
    likelihood = varying([0.01, -0.02])
    h = normal(5, 2)
    torch.testing.assert_close(
        adapter_of(likelihood).relative_noise(h), (h @ likelihood.slopes).exp().unsqueeze(-1), rtol=1e-4, atol=0
    )
    far = adapter_of(likelihood).relative_noise(1e9 * torch.eye(2, dtype=torch.float64)).flatten()
    assert far.tolist() == pytest.approx([exp(4), exp(-4)])
    assert adapter_of(varying(None)).relative_noise(h) is None
    assert adapter_of(GaussianLikelihood()).relative_noise(h) is None


@pytest.mark.parametrize("method", ["log_marginal", "expected_log_prob"])
def test_each_row_has_the_noise_of_its_inputs(method: str) -> None:
    likelihood, h = varying([0.8, -0.5]), normal(3, 4, 2)
    y, mean, variance = normal(4, 3, seed=2), normal(3, 4, 3, seed=3), normal(3, 4, 3, seed=4).exp()
    relative = adapter_of(likelihood).relative_noise(h)
    together = getattr(adapter_of(likelihood), method)(y, Latent(mean, variance, relative))  # [S, N]
    assert together.shape == (3, 4)
    for s in range(3):
        for i in range(4):
            own = varying(None)
            own.noise = BOUND + (NOISE - BOUND) * relative[s, i].item()
            row = Latent(mean[s, i : i + 1], variance[s, i : i + 1])
            alone = getattr(adapter_of(own), method)(y[i : i + 1], row)
            torch.testing.assert_close(together[s, i], alone[0])
            torch.testing.assert_close(noise_variance(likelihood, relative)[s, i], noise_variance(own))


def test_noise_never_falls_below_its_bound() -> None:
    likelihood = varying([50.0])
    relative = adapter_of(likelihood).relative_noise(torch.tensor([[-1e6]], dtype=torch.float64))
    expected = BOUND + (NOISE - BOUND) * exp(-4) + SHARE * OUTLIERS
    assert noise_variance(likelihood, relative).item() == pytest.approx(expected)


@pytest.mark.parametrize("constraint", [LessThan(2.0), Interval(-0.5, 0.9)])
def test_noise_whose_bound_lies_below_zero_stays_positive(constraint: Interval) -> None:
    likelihood = varying([1.0])
    likelihood.noise_covar.register_constraint("raw_noise", constraint)
    likelihood.noise = NOISE
    relative = adapter_of(likelihood).relative_noise(torch.tensor([[-1e6], [0.0]], dtype=torch.float64))
    expected = [NOISE * exp(-4) + SHARE * OUTLIERS, NOISE + SHARE * OUTLIERS]
    assert noise_variance(likelihood, relative).tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("num_layers", [1, 3])
def test_slopes_of_zero_are_the_same_noise_everywhere(num_layers: int) -> None:
    X, y = normal(20, 2), normal(20, seed=2)
    flat = deep([0.0, 0.0], num_layers)
    same = actgp.DeepGP(flat.gp_layers, varying(None))
    one, other = (model.predict(X, 8) for model in (flat, same))
    torch.testing.assert_close(one.log_prob(y), other.log_prob(y))
    torch.testing.assert_close(one.variance, other.variance)
    torch.testing.assert_close(torch.stack(one.interval()), torch.stack(other.interval()))
    elbos = [model.elbo(X, y, 20, 4, generator=generator()) for model in (flat, same)]
    torch.testing.assert_close(*elbos)


@pytest.mark.parametrize("num_layers", [1, 3])
def test_a_prediction_is_the_mixture_of_its_paths(num_layers: int) -> None:
    model, X = deep(num_layers=num_layers), normal(30, 2)
    prediction = model.predict(X, 16)
    weights, means, variances = prediction.normal_components()
    total = (weights.reshape(-1, 1, 1) * (variances + means.square())).sum(0) - prediction.mean.unsqueeze(-1).square()
    torch.testing.assert_close(prediction.variance.unsqueeze(-1), total)
    assert prediction.aleatoric.max() > 2 * prediction.aleatoric.min()  # it does vary
    y = normal(30, seed=5)
    densities = torch.distributions.Normal(means, variances.sqrt()).log_prob(y.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(prediction.log_prob(y), (weights.log().unsqueeze(-1) + densities).logsumexp(0))
    lower, upper = prediction.interval(0.8)
    for end, expected in ((lower, 0.1), (upper, 0.9)):
        below = torch.special.ndtr((end.unsqueeze(-1) - means) / variances.sqrt())
        torch.testing.assert_close((weights.reshape(-1, 1, 1) * below).sum(0), torch.full_like(below[0], expected))


def test_outputs_share_the_noise_of_their_row() -> None:
    model, X, y = deep(num_outputs=3), normal(7, 2), normal(7, 3, seed=5)
    prediction = model.predict(X, 4)
    assert prediction.aleatoric.shape == (7, 3)
    torch.testing.assert_close(prediction.aleatoric[:, 0], prediction.aleatoric[:, 2])
    paths = prediction.component_means, prediction.component_variances, prediction.relative_noise
    rows = []
    for mean, variance, relative in zip(*paths, strict=True):
        narrow = BOUND + (NOISE - BOUND) * relative
        densities = [
            log_share + torch.distributions.Normal(mean, (variance + noise).sqrt()).log_prob(y)
            for log_share, noise in ((log(1 - SHARE), narrow), (log(SHARE), narrow + OUTLIERS))
        ]
        rows.append(torch.stack(densities).logsumexp(0).sum(-1))
    torch.testing.assert_close(prediction.log_prob(y), torch.stack(rows).logsumexp(0) - log(4))


def test_a_likelihood_in_single_precision_serves_layers_in_double() -> None:
    layers = deep().gp_layers
    model = actgp.DeepGP(layers, actgp.ContaminatedGaussianLikelihood(input_dim=2))
    assert model.predict(normal(5, 2)).aleatoric.isfinite().all()
    assert model.elbo(normal(5, 2), normal(5), 5).isfinite()


def test_one_layer_takes_noise_from_x_itself() -> None:
    model, X = deep(num_layers=1), normal(10, 2)
    relative = adapter_of(model.likelihood).relative_noise(X)
    torch.testing.assert_close(model.predict(X).aleatoric, noise_variance(model.likelihood, relative))


def test_predictions_in_chunks_are_those_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    model, X = deep(num_outputs=2), normal(50, 2)
    whole = model.predict(X, 5)
    monkeypatch.setattr("actgp.models.deep.CHUNK", 1)
    parts = model.predict(X, 5)
    torch.testing.assert_close(parts.relative_noise, whole.relative_noise)
    torch.testing.assert_close(parts.aleatoric, whole.aleatoric)


@pytest.mark.parametrize("objective", ["elbo", "predictive"])
def test_the_gradient_of_the_slopes(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X, y = deep(), normal(6, 2), normal(6, 1, seed=2)
    recipe = actgp.Recipe(objective=objective, num_samples=3)

    def loss(slopes: torch.Tensor) -> torch.Tensor:
        def at(slopes: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return (4 * torch.tanh((h @ slopes).unsqueeze(-1) / 4)).exp()

        monkeypatch.setattr(ContaminatedAdapter, "relative_noise", lambda self, h: at(slopes, h))
        return posterior_objective(model, X, y, 6, recipe, 0.3, generator()).loss

    given = model.likelihood.slopes
    expected = posterior_objective(model, X, y, 6, recipe, 0.3, generator()).loss
    (gradient,) = torch.autograd.grad(expected, given)
    slopes = given.detach().clone().requires_grad_()
    assert gradcheck(loss, (slopes,))
    (numeric,) = torch.autograd.grad(loss(slopes), slopes)
    torch.testing.assert_close(gradient, numeric)


def test_training_finds_where_noise_is() -> None:
    X = torch.randn(600, 2, generator=generator(3))
    sd = torch.where(X[:, 0] > 0, 0.5, 0.1)
    y = torch.sin(2 * X[:, 1]) + sd * torch.randn(600, generator=generator(4))
    recipe = actgp.Recipe(network_steps=100, num_steps=100, learning_rate=0.05, calibrate=False)
    scores = []
    for likelihood in (None, actgp.ContaminatedGaussianLikelihood()):
        model = actgp.deep_gp(2, 1, 2, 16, likelihood=likelihood, generator=generator())
        actgp.fit(model, X[:400], y[:400], recipe, generator=generator(), progress=False)
        prediction = model.predict(X[400:], 20)
        scores.append(prediction.log_prob(y[400:]).mean().item())
        if likelihood is None:
            relative, x = prediction.relative_noise.mean((0, 2)), X[400:, 0]
            assert 5 < relative[x > 1].median() / relative[x < -1].median() < 100  # the truth is 25
    assert scores[0] > scores[1] + 0.05


def test_a_warm_start_begins_with_noise_that_is_the_same_everywhere() -> None:
    free, frozen = deep(), deep()
    frozen.likelihood.slopes.requires_grad_(False)
    X, y = normal(60, 2), normal(60, 1, seed=2)
    for model in (free, frozen):
        warm_start(model, TensorBatches(X, y, 60, generator()), actgp.Recipe(), 1.0)
    assert not free.likelihood.slopes.any()
    assert torch.equal(frozen.likelihood.slopes, deep().likelihood.slopes)


def test_noise_in_the_shares_is_that_of_predictions() -> None:
    model, X = deep(num_layers=1), normal(40, 2)
    shares, prediction = actgp.diagnose(model, X).shares, model.predict(X)
    assert shares.noise == pytest.approx((prediction.aleatoric.mean() / prediction.variance.mean()).item(), rel=1e-6)


def test_models_with_varying_noise_come_back_from_files() -> None:
    model, X = deep(), normal(9, 2)
    description = describe(model)
    back = rebuild(description.document, description.tensors)
    assert torch.equal(back.predict(X, 4).aleatoric, model.predict(X, 4).aleatoric)
    without = {name: tensor for name, tensor in description.tensors.items() if not name.endswith("slopes")}
    with pytest.raises(ValueError, match=r"likelihood must have a tensor slopes .* got none"):
        rebuild(description.document, without)
    longer = description.tensors | {"likelihood.slopes": torch.zeros(3, dtype=torch.float64)}
    with pytest.raises(ValueError, match=r"likelihood must have a tensor slopes of shape \[2\], got \[3\]"):
        rebuild(description.document, longer)


def test_slopes_must_fit_the_last_layer() -> None:
    with pytest.raises(ValueError, match=r"must be that of the last layer, 4, got 3; make them agree"):
        actgp.deep_gp(4, likelihood=actgp.ContaminatedGaussianLikelihood(input_dim=3))
    with pytest.raises(ValueError, match="input_dim must be"):
        actgp.ContaminatedGaussianLikelihood(input_dim=0)
    assert actgp.deep_gp(4, layers=actgp.Layers(hidden_dim=3), num_inducing=8).likelihood.slopes.shape == (3,)
