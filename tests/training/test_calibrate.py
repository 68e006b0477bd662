"""The last word of held-out rows: on variances where noise is Gaussian, and on the temperature of classes."""

from copy import deepcopy
from dataclasses import replace
from importlib import import_module  # the name of the module is also that of a function
from math import log

import pytest
import torch
from gpytorch.constraints import GreaterThan, Interval, LessThan, Positive
from gpytorch.likelihoods import BernoulliLikelihood, GaussianLikelihood, Likelihood, SoftmaxLikelihood

import actgp
from actgp import Recipe
from actgp.training import calibrate
from actgp.training.calibrate import apply_factors, calibrate_temperature, choose_factors
from actgp.training.objectives import posterior_score


def calibrated(deep: actgp.DeepGP, X: torch.Tensor, y: torch.Tensor) -> None:
    factors = choose_factors(deep, X, y)
    assert factors is not None
    apply_factors(deep, factors)


def model(noise: float) -> actgp.DeepGP:
    """Knows that f is nearly zero, and has a noise of its own, without outliers."""
    likelihood = GaussianLikelihood(noise_constraint=GreaterThan(1e-6))
    g = torch.Generator().manual_seed(0)
    deep = actgp.deep_gp(2, num_layers=2, num_inducing=6, likelihood=likelihood, generator=g).double()
    for layer in deep.gp_layers:
        layer.kernel.variance = torch.tensor(1e-6)
    deep.likelihood.noise = noise
    return deep


def rows(number: int, sd: float) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    X = torch.randn(number, 2, dtype=torch.float64, generator=g)
    return X, sd * torch.randn(number, 1, dtype=torch.float64, generator=g)


@pytest.mark.parametrize("start", [4.0, 0.04, 0.0004])
def test_many_rows_find_the_noise(start: float) -> None:
    deep, (X, y) = model(start), rows(2_000, sd=0.2)
    before = posterior_score(deep, X, y)
    calibrated(deep, X, y)
    assert deep.likelihood.noise.item() == pytest.approx(y.square().mean().item(), rel=0.02)
    assert posterior_score(deep, X, y) >= before


def test_rows_find_the_noise_among_outliers_which_keep_theirs() -> None:
    X, y = rows(2_000, sd=0.2)
    y[::100] *= 30.0
    gaussian, contaminated = model(0.1), model(0.1)
    contaminated.likelihood = actgp.ContaminatedGaussianLikelihood().double()
    contaminated.likelihood.noise, contaminated.likelihood.outlier_noise = 0.1, 36.0
    for deep in (gaussian, contaminated):
        calibrated(deep, X, y)
    assert contaminated.likelihood.noise.item() == pytest.approx(0.04, rel=0.1)
    assert contaminated.likelihood.outlier_noise.item() == pytest.approx(36.0)
    assert gaussian.likelihood.noise.item() > 0.2


def test_few_rows_say_little() -> None:
    changes = []
    for number in (2, 20, 2_000):
        deep = model(4.0)
        calibrated(deep, *rows(number, sd=0.2))
        changes.append(log(4.0 / deep.likelihood.noise.item()))
    assert 0 < changes[0] < changes[1] < changes[2]
    assert changes[0] < 2.0


def test_noise_that_is_fixed_stays() -> None:
    deep, (X, y) = model(4.0), rows(50, sd=0.2)
    deep.likelihood.requires_grad_(False)
    assert choose_factors(deep, X, y) is None


def test_choosing_leaves_the_model_as_it_is_also_when_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    deep, (X, y) = model(4.0), rows(50, sd=0.2)
    before = {name: values.clone() for name, values in deep.state_dict().items()}
    factors = choose_factors(deep, X, y)
    assert factors is not None
    assert factors.noise < 0.1
    calls = iter(range(5))

    def interrupted(*_: object) -> float:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return 0.0

    monkeypatch.setattr(calibrate, "posterior_score", interrupted)
    with pytest.raises(KeyboardInterrupt):
        choose_factors(deep, X, y)
    assert all(torch.equal(values, before[name]) for name, values in deep.state_dict().items())


def unsure(q_scale: float, generator: torch.Generator) -> actgp.DeepGP:
    """Means that vary, under a prior that leaves much unexplained."""
    deep = actgp.deep_gp(
        3, num_layers=2, num_inducing=8, layers=actgp.Layers(num_points=4), generator=generator
    ).double()
    for layer in deep.gp_layers:
        m = torch.randn(layer.q.mean.shape, dtype=torch.float64, generator=generator)
        layer.q.assign(m, q_scale * torch.eye(len(m), dtype=torch.float64).expand(layer.num_outputs, -1, -1))
    deep.likelihood.noise = 0.01
    return deep


@pytest.mark.parametrize("q_scale", [1e-3, 1.0])
def test_a_model_that_is_less_sure_than_it_may_be_learns_so_and_keeps_its_means(
    q_scale: float, generator: torch.Generator
) -> None:
    deep = unsure(q_scale, generator)
    X = torch.randn(600, 3, dtype=torch.float64, generator=generator)
    y = deep.mean(X)[:, None].detach() + 0.1 * torch.randn(600, 1, dtype=torch.float64, generator=generator)
    before = [deep.mean(X), *(layer(X).variance for layer in deep.gp_layers), posterior_score(deep, X, y)]
    calibrated(deep, X, y)
    after = [deep.mean(X), *(layer(X).variance for layer in deep.gp_layers), posterior_score(deep, X, y)]
    torch.testing.assert_close(after[0], before[0])
    assert all((new < 0.8 * old).all() for new, old in zip(after[1:-1], before[1:-1], strict=True))
    assert after[-1] > before[-1] + 0.2


def test_the_factors_are_those_of_the_parts_of_the_variance(generator: torch.Generator) -> None:
    deep = unsure(0.5, generator)
    X = torch.randn(5, 3, dtype=torch.float64, generator=generator)
    old = [variance_parts(layer, X) for layer in deep.gp_layers]
    calibrate._multiplier(deep)(2.0, 3.0, 0.25)
    assert deep.likelihood.noise.item() == pytest.approx(0.02)
    for layer, (of_q, unexplained) in zip(deep.gp_layers, old, strict=True):
        new = variance_parts(layer, X)
        torch.testing.assert_close(new[0], 3.0 * of_q)
        torch.testing.assert_close(new[1], 0.25 * unexplained)


def variance_parts(layer: actgp.GPLayer, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """That of q(u), and that of the prior which q leaves alone."""
    copy = deepcopy(layer)
    copy.q.assign(copy.q.mean, 1e-12 * copy.q.scale_tril)
    unexplained = copy(X).variance
    return (layer(X).variance - unexplained).detach(), unexplained.detach()


def test_what_is_fixed_stays(generator: torch.Generator) -> None:
    deep = unsure(1.0, generator)
    first, last = deep.gp_layers
    first.kernel.raw_variance.requires_grad_(False)
    last.q.requires_grad_(False)
    kept = [first.kernel.variance.clone(), last.q.mean.clone(), last.q.raw_scale_tril.clone(), last.kernel.variance]
    S = first.q.scale_tril.clone()
    calibrate._multiplier(deep)(1.0, 4.0, 0.25)
    now = [first.kernel.variance, last.q.mean, last.q.raw_scale_tril, last.kernel.variance]
    assert all(torch.equal(new, old) for new, old in zip(now, kept, strict=True))
    torch.testing.assert_close(first.q.scale_tril, 2.0 * S)


def classifier(likelihood: Likelihood, num_outputs: int) -> actgp.DeepGP:
    """Sure of what it says, whatever that is."""
    g = torch.Generator().manual_seed(0)
    deep = actgp.deep_gp(
        2, num_outputs, 2, 6, layers=actgp.Layers(num_points=0, horizon=50.0), likelihood=likelihood, generator=g
    ).double()
    with torch.no_grad():
        for layer in deep.gp_layers:
            layer.q.raw_mean.normal_(generator=g).mul_(3)
            layer.q.raw_scale_tril.diagonal(dim1=1, dim2=2).fill_(-3.0)
    return deep


def test_a_temperature_divides_what_is_latent(generator: torch.Generator) -> None:
    deep = classifier(BernoulliLikelihood(), 1)
    X = torch.randn(400, 2, dtype=torch.float64, generator=generator)
    y = torch.randint(2, (400, 1), generator=generator).double()  # nothing to be known
    before, paths = posterior_score(deep, X, y), deep.paths(X, 3, generator=torch.Generator().manual_seed(0))
    calibrate_temperature(deep, X, y)
    after = deep.paths(X, 3, generator=torch.Generator().manual_seed(0))
    T = (paths.mean / after.mean).mean().detach()
    assert T > 5
    torch.testing.assert_close(after.mean * T, paths.mean)
    torch.testing.assert_close(after.variance * T**2, paths.variance)
    assert posterior_score(deep, X, y) > before + 0.1


def test_a_model_that_is_right_stays_nearly_as_it_is(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actgp.training.calibrate.PATHS", 20)
    deep = classifier(SoftmaxLikelihood(num_classes=3, mixing_weights=False), 3)
    X = torch.randn(600, 2, dtype=torch.float64, generator=generator)
    y = torch.multinomial(deep.predict(X, 200).probabilities, 1, generator=generator)[:, 0]
    variance = deep.gp_layers[-1].kernel.variance.item()
    calibrate_temperature(deep, X, y)
    assert 0.5 * variance < deep.gp_layers[-1].kernel.variance.item() <= variance
    variance = deep.gp_layers[-1].kernel.variance.item()
    calibrate_temperature(deep, X, deep.predict(X, 50).probabilities.argmax(-1))  # surer than it is it never becomes
    assert deep.gp_layers[-1].kernel.variance.item() == variance
    deep.gp_layers[-1].kernel.raw_variance.requires_grad_(False)
    variance = deep.gp_layers[-1].kernel.variance.item()
    calibrate_temperature(deep, X, (y + 1) % 3)
    assert deep.gp_layers[-1].kernel.variance.item() == variance


def test_fit_ends_with_what_held_out_rows_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("actgp.training.stages"), "warm_start", lambda *_: None)
    X, y = rows(240, sd=0.2)
    still = Recipe(network_steps=0, num_steps=1, learning_rate=1e-9, natural_rate=1e-9)
    noises = {}
    for validation, settles in ((0.0, True), (0.25, False), (0.25, True)):
        deep, recipe = model(4.0), replace(still, validation=validation, calibrate=settles)
        actgp.fit(deep, X, y[:, 0], recipe, progress=False)
        noises[validation, settles] = deep.likelihood.noise.item()
    assert noises[0.0, True] == pytest.approx(4.0, rel=1e-3)  # nothing was held out
    assert noises[0.25, False] == pytest.approx(4.0, rel=1e-3)
    assert noises[0.25, True] < 0.08


def test_an_interrupt_of_the_last_stage_keeps_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("actgp.training.stages"), "warm_start", lambda *_: None)

    def interrupt(step: actgp.Step) -> None:
        if step.stage == "final":
            raise KeyboardInterrupt

    deep, (X, y) = model(4.0), rows(240, sd=0.2)
    recipe = Recipe(network_steps=0, num_steps=8, learning_rate=1e-9, natural_rate=1e-9, validation=0.25)
    with pytest.raises(KeyboardInterrupt):
        actgp.fit(deep, X, y[:, 0], recipe, callback=interrupt, progress=False)
    assert deep.likelihood.noise.item() < 0.08


def test_a_temperature_is_chosen_only_by_rows_that_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    module = import_module("actgp.training.stages")
    monkeypatch.setattr(module, "calibrate_temperature", lambda deep, X, y: asked.append(len(X)))
    X, y = rows(240, sd=0.2)
    recipe = Recipe(network_steps=0, num_steps=1)
    actgp.fit(model(1.0), X, y[:, 0], recipe, progress=False)
    assert asked == []
    actgp.fit(model(1.0), X, y[:, 0], recipe, held_out=(X[:40], y[:40, 0]), progress=False)
    assert asked == [40]


@pytest.mark.parametrize("constraint", [Interval(1e-4, 1e-2), Interval(0.0, 5.0), Positive()])
@pytest.mark.parametrize("size", [0.0, 1.0])
def test_noise_stays_within_bounds_of_all_kinds(constraint: Interval, size: float, dtype: torch.dtype) -> None:
    likelihood = GaussianLikelihood(noise_constraint=constraint)
    deep = actgp.deep_gp(2, num_layers=2, num_inducing=6, likelihood=likelihood).to(dtype)
    X = torch.randn(30, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))
    y = size * X[:, 0]
    actgp.fit(deep, X, y, Recipe(network_steps=3, num_steps=3), held_out=(X, y), progress=False)
    assert constraint.lower_bound < likelihood.noise.item() < constraint.upper_bound
    assert torch.isfinite(deep.predict(X).variance).all()


def test_noise_that_may_be_negative_is_refused() -> None:
    with pytest.raises(ValueError, match="noise must be above zero, got -0.6.*lower bound of at least zero"):
        actgp.deep_gp(2, likelihood=GaussianLikelihood(noise_constraint=LessThan(0.01)))
