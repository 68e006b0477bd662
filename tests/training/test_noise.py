"""The last word on Gaussian noise."""

from importlib import import_module  # the name of the module is also that of a function
from math import log

import pytest
import torch
from gpytorch.likelihoods import BernoulliLikelihood

import actgp
from actgp import Recipe
from actgp.training.noise import settle_noise
from actgp.training.objectives import posterior_score


def model(noise: float) -> actgp.DeepGP:
    """Knows that f is nearly zero, and has a noise of its own."""
    deep = actgp.deep_gp(2, num_layers=2, num_inducing=6, generator=torch.Generator().manual_seed(0)).double()
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
    settle_noise(deep, X, y)
    assert deep.likelihood.noise.item() == pytest.approx(y.square().mean().item(), rel=0.02)
    assert posterior_score(deep, X, y) >= before


def test_few_rows_say_little() -> None:
    changes = []
    for number in (2, 20, 2_000):
        deep = model(4.0)
        settle_noise(deep, *rows(number, sd=0.2))
        changes.append(log(4.0 / deep.likelihood.noise.item()))
    assert 0 < changes[0] < changes[1] < changes[2]
    assert changes[0] < 2.0


def test_noise_that_is_fixed_stays_and_others_have_none() -> None:
    deep, (X, y) = model(4.0), rows(50, sd=0.2)
    deep.likelihood.requires_grad_(False)
    settle_noise(deep, X, y)
    assert deep.likelihood.noise.item() == pytest.approx(4.0)
    settle_noise(actgp.deep_gp(2, num_inducing=6, likelihood=BernoulliLikelihood()).double(), X, (y > 0).double())


def test_fit_ends_with_what_held_out_rows_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("actgp.training.fit"), "warm_start", lambda *_: None)
    X, y = rows(240, sd=0.2)
    noises = []
    for validation in (0.0, 0.25):
        deep = model(4.0)
        recipe = Recipe(network_steps=0, num_steps=1, learning_rate=1e-9, natural_rate=1e-9, validation=validation)
        actgp.fit(deep, X, y[:, 0], recipe, progress=False)
        noises.append(deep.likelihood.noise.item())
    assert noises[0] == pytest.approx(4.0, rel=1e-3)  # nothing was held out
    assert noises[1] < 0.08
