"""Targets that are rounded: their noise stays above the rounding."""

from pathlib import Path

import pytest
import torch
from gpytorch.constraints import GreaterThan, Interval, Positive
from gpytorch.likelihoods import GaussianLikelihood, Likelihood

import actgp
from actgp import Recipe
from actgp.training.calibrate import bound_noise_by_rounding, rounding_step
from actgp.training.data import TensorBatches

FEW = Recipe(network_steps=5, num_steps=5)


def rows(N: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(N, 2, generator=g)
    return X, X.sum(1, keepdim=True) + torch.randn(N, 1, generator=g)


def model(likelihood: Likelihood | None = None, num_outputs: int = 1) -> actgp.DeepGP:
    """One whose mean is not zero, as if it had been trained."""
    g = torch.Generator().manual_seed(1)
    deep = actgp.deep_gp(2, num_outputs, num_layers=2, num_inducing=8, likelihood=likelihood, generator=g)
    with torch.no_grad():
        deep.gp_layers[-1].q.raw_mean[:4].normal_(0.0, 0.1, generator=g)
    return deep


def bound(deep: actgp.DeepGP) -> float:
    return float(deep.likelihood.noise_covar.raw_noise_constraint.lower_bound)


def bounded(deep: actgp.DeepGP, X: torch.Tensor, y: torch.Tensor, errors: torch.Tensor | None = None) -> float:
    """The bound after a look at the data, with held-out rows on which the network has these errors."""
    held_out = None if errors is None else (X, deep.mean(X).detach().unsqueeze(-1) + errors)
    bound_noise_by_rounding(deep, TensorBatches(X, y, 64, torch.Generator()), held_out)
    return bound(deep)


@pytest.mark.parametrize("delta", [0.01, 1.0, 2.5])
def test_the_step_between_values(delta: float) -> None:
    _, y = rows()
    whole = (y[:, 0] / y.std() * 2).round()
    assert rounding_step(whole * delta) == pytest.approx(delta, rel=1e-5)
    whole[0] += 0.3  # a single odd one
    assert rounding_step(whole * delta) == pytest.approx(delta, rel=1e-5)


def test_round_off_does_not_make_other_values() -> None:
    g = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        marks = torch.randint(1, 6, (300, 3), generator=g).to(dtype)
        assert rounding_step(marks[:, 0] / 3 + marks[:, 1] / 3 + marks[:, 2] / 3) == pytest.approx(1 / 3, rel=1e-5)


def test_no_step_where_most_values_occur_once_or_there_is_one() -> None:
    _, y = rows()
    assert rounding_step(y[:, 0]) == 0.0
    assert rounding_step(torch.cat([y[:, 0], y[:50, 0]])) == 0.0  # some rows twice
    assert rounding_step(torch.where(y[:, 0] < 0.5, 0.0, y[:, 0] + 100.0)) == 0.0  # most are zero, the others differ
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


@pytest.mark.parametrize(("size", "share", "expected"), [(0.49, 1.0, 1e-6), (0.51, 0.22, 1 / 12), (30.0, 0.18, 1e-6)])
def test_only_where_many_held_out_rows_are_nearer_to_another_value(size: float, share: float, expected: float) -> None:
    X, y = rows()
    errors = torch.zeros_like(y)
    errors[: int(share * len(y))] = size
    assert bounded(model(), X, y.round(), errors) == pytest.approx(expected)


def test_a_mean_that_was_never_trained_is_no_judge() -> None:
    X, y = rows()
    assert bounded(actgp.deep_gp(2, num_layers=2, num_inducing=8), X, y.round()) == pytest.approx(1e-6)


def test_a_constraint_that_models_share_is_not_changed_for_the_others() -> None:
    X, y = rows()
    shared = GreaterThan(1e-6)
    first, second = (model(GaussianLikelihood(noise_constraint=shared)) for _ in range(2))
    second.likelihood.noise = 1e-3
    assert bounded(first, X, y.round()) == pytest.approx(1 / 12)
    assert bound(second) == pytest.approx(1e-6)
    assert second.likelihood.noise.item() == pytest.approx(1e-3)


def test_outputs_share_their_noise_so_that_the_finest_counts() -> None:
    X, y = rows()
    quarters = torch.cat([y.round(), y.round() / 4], dim=1)
    assert bounded(model(num_outputs=2), X, quarters) == pytest.approx(1 / 16 / 12)
    assert bounded(model(num_outputs=2), X, torch.cat([y.round(), y], dim=1)) == pytest.approx(1e-6)


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
