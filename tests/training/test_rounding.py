"""Targets that are rounded: their noise stays above the rounding."""

from pathlib import Path

import pytest
import torch
from gpytorch.constraints import GreaterThan, Interval, Positive
from gpytorch.likelihoods import GaussianLikelihood, Likelihood

import actgp
from actgp import Recipe
from actgp.training.data import TensorBatches
from actgp.training.rounding import bound_noise_by_rounding, rounding_step

FEW = Recipe(network_steps=5, num_steps=5)


def rows(N: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(N, 2, generator=g)
    return X, X.sum(1, keepdim=True) + torch.randn(N, 1, generator=g)


def model(likelihood: Likelihood | None = None) -> actgp.DeepGP:
    return actgp.deep_gp(
        2, num_layers=2, num_inducing=8, likelihood=likelihood, generator=torch.Generator().manual_seed(1)
    )


def bound(deep: actgp.DeepGP) -> float:
    return float(deep.likelihood.noise_covar.raw_noise_constraint.lower_bound)


def bounded(deep: actgp.DeepGP, X: torch.Tensor, y: torch.Tensor, judges: float | None = None) -> float:
    """The bound after a look at the data; `judges`: what is to be added to the network to get held-out targets."""
    held_out = None if judges is None else (X, deep.mean(X).detach().unsqueeze(-1) + judges)
    bound_noise_by_rounding(deep, TensorBatches(X, y, 64, torch.Generator()), held_out)
    return bound(deep)


@pytest.mark.parametrize("delta", [0.01, 1.0, 2.5])
def test_the_step_between_values(delta: float) -> None:
    _, y = rows()
    whole = (y[:, 0] / y.std() * 2).round()
    assert rounding_step(whole * delta) == pytest.approx(delta, rel=1e-5)
    whole[0] += 0.3  # a single odd one
    assert rounding_step(whole * delta) == pytest.approx(delta, rel=1e-5)


def test_no_step_where_values_hardly_repeat_or_are_all_the_same() -> None:
    _, y = rows()
    assert rounding_step(y[:, 0]) == 0.0
    assert rounding_step(torch.cat([y[:, 0], y[:50, 0]])) == 0.0  # some rows twice
    assert rounding_step(torch.ones(20)) == 0.0


def test_noise_is_bounded_by_the_variance_of_rounding() -> None:
    X, y = rows()
    deep = model()
    deep.likelihood.noise = 1e-4
    assert bounded(deep, X, y.round()) == pytest.approx(1 / 12)
    assert deep.likelihood.noise.item() == pytest.approx(1.001 / 12, rel=1e-4)
    deep.likelihood.noise = 0.5
    assert bounded(deep, X, y.round()) == pytest.approx(1 / 12)
    assert deep.likelihood.noise.item() == pytest.approx(0.5)


@pytest.mark.parametrize(("off", "expected"), [(0.49, 1e-6), (0.51, 1 / 12)])
def test_only_where_held_out_rows_say_that_neighbouring_values_cannot_be_told_apart(
    off: float, expected: float
) -> None:
    X, y = rows()
    assert bounded(model(), X, y.round(), judges=off) == pytest.approx(expected)


def test_outputs_share_their_noise_so_that_the_finest_counts() -> None:
    X, y = rows()
    deep = actgp.deep_gp(2, 2, num_layers=2, num_inducing=8)
    assert bounded(deep, X, torch.cat([y.round(), y.round() / 4], dim=1)) == pytest.approx(1 / 16 / 12)
    deep = actgp.deep_gp(2, 2, num_layers=2, num_inducing=8)
    assert bounded(deep, X, torch.cat([y.round(), y], dim=1)) == pytest.approx(1e-6)


@pytest.mark.parametrize("constraint", [Positive(), Interval(1e-5, 2.0)], ids=["positive", "interval"])
def test_other_constraints_are_left_alone(constraint: Interval) -> None:
    X, y = rows()
    before = float(constraint.lower_bound)
    assert bounded(model(GaussianLikelihood(noise_constraint=constraint)), X, y.round()) == before


def test_noise_that_is_frozen_or_bounded_higher_stays() -> None:
    X, y = rows()
    frozen = model()
    frozen.likelihood.raw_noise.requires_grad_(False)
    assert bounded(frozen, X, y.round()) == pytest.approx(1e-6)
    high = model(GaussianLikelihood(noise_constraint=GreaterThan(0.2)))
    assert bounded(high, X, y.round()) == pytest.approx(0.2)


def test_fit_bounds_the_noise_of_whole_numbers_and_the_bound_is_saved(tmp_path: Path) -> None:
    X, y = rows()
    deep = model()
    actgp.fit(deep, X, y[:, 0].round(), FEW, progress=False, checkpoint=tmp_path / "run")
    assert bound(deep) == pytest.approx(1 / 12)
    deep.save(tmp_path / "model")
    assert actgp.load(tmp_path / "model").likelihood.noise.item() == deep.likelihood.noise.item() >= 1 / 12
    again = model()
    actgp.fit(again, X, y[:, 0].round(), FEW, progress=False, checkpoint=tmp_path / "run")  # complete already
    assert bound(again) == bound(deep)
    assert torch.equal(again.predict(X).variance, deep.predict(X).variance)


def test_fit_leaves_the_noise_of_other_targets_free() -> None:
    X, y = rows()
    deep = model()
    actgp.fit(deep, X, y[:, 0], FEW, progress=False)
    assert bound(deep) == pytest.approx(1e-6)
