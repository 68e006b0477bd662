"""Targets with a long tail: when they are given to models as logarithms, and what comes back."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from small_estimators import Data, regressor

import actgp
from actgp.distil import LongTail, LongTailed, Normals, javascript, log_slope, shortened
from actgp.estimators.long_tails import candidates, gain, long_tail_of


@pytest.fixture(scope="module")
def prices() -> Data:
    """Errors in proportion to prices."""
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 2))
    return X, np.exp(11.0 + 0.8 * X[:, 0] + 0.6 * random.normal(size=120))


@pytest.fixture(scope="module")
def fitted(prices: Data) -> actgp.DGPRegressor:
    return actgp.DGPRegressor(effort="fast", time_budget=1.0, random_state=0).fit(*prices)


def chosen(X: np.ndarray, y: np.ndarray) -> LongTail:
    scaled = (X - X.mean(0)) / X.std(0)
    return long_tail_of(torch.from_numpy(scaled), torch.from_numpy(y.reshape(len(y), -1)))


def test_logarithms_where_errors_grow_with_targets(prices: Data) -> None:
    X, y = prices
    both = chosen(X, np.stack([y, -y / 100], axis=1))
    assert both.changes
    assert both.values[0].tolist() == [1, -1]
    scale = torch.tensor([1.0, 0.01]).double()
    torch.testing.assert_close(both.values[2:], both.values[2:, :1] * scale)  # whatever the units


def test_nothing_else_changes(prices: Data) -> None:
    X, y = prices
    random = np.random.default_rng(1)
    normal, outliers = X[:, 0] + 0.1 * random.normal(size=120), X[:, 0] + 0.1 * random.standard_t(2, size=120)
    skewed_by_chance = np.where(random.random(120) < 0.03, 5.0, 0.0) + X[:, 0]
    known = np.exp(X[:, 0] + 0.01 * random.normal(size=120))
    for targets in (normal, outliers, skewed_by_chance, known, y[:40]):
        assert not chosen(X[: len(targets)], targets).changes


def test_the_gain_is_that_of_normal_densities() -> None:
    y = torch.exp(torch.randn(500, 1, generator=torch.Generator().manual_seed(0)).double())
    for tail in candidates(y):
        t = shortened(y, tail.values)

        def density(values: torch.Tensor) -> torch.Tensor:
            return torch.distributions.Normal(values.mean(), values.std(correction=0)).log_prob(values).mean()

        wanted = density(t) + log_slope(y, tail.values).mean() - density(y)
        np.testing.assert_allclose(gain(y, tail), wanted, atol=1e-9)


def test_everything_comes_back_in_the_units_of_y(fitted: actgp.DGPRegressor, prices: Data) -> None:
    X, y = prices
    said = fitted.predict_dist(X)
    assert isinstance(said, LongTailed)
    mean, std = fitted.predict(X, return_std=True)
    np.testing.assert_allclose(fitted.predict(X), mean)
    np.testing.assert_allclose(said.mean, mean)
    np.testing.assert_allclose(said.std, std)
    np.testing.assert_allclose(said.log_prob(torch.from_numpy(y)), fitted.log_density(X, y), atol=1e-6)
    levels = [0.025, 0.5, 0.975]
    quantiles = fitted.quantile(X, levels)
    np.testing.assert_allclose(said.quantiles(tuple(levels)), quantiles.T, rtol=1e-4)
    np.testing.assert_allclose(fitted.predict_interval(X), quantiles[:, [0, 2]].T)
    assert fitted.score(X, y) > 0.2


def test_the_density_is_one_of_y(fitted: actgp.DGPRegressor, prices: Data) -> None:
    X, y = prices
    grid = np.linspace(-y.max(), 8 * y.max(), 20_001)
    density = np.exp(fitted.log_density(np.tile(X[0], (len(grid), 1)), grid))
    np.testing.assert_allclose(np.trapezoid(density, grid), 1.0, rtol=3e-3)
    drawn = fitted.sample_y(X[:3], 50, random_state=0)
    np.testing.assert_allclose(np.median(drawn, axis=1), fitted.quantile(X[:3], 0.5), rtol=0.2)


@pytest.mark.filterwarnings("ignore::actgp.FidelityWarning")
def test_files_and_students_keep_it(fitted: actgp.DGPRegressor, prices: Data, tmp_path: Path) -> None:
    X, y = prices
    student = actgp.distill(fitted, torch.from_numpy(X), num_places=500, num_steps=100)
    fitted.student_ = student
    fitted.save(tmp_path / "prices.actgp")
    again = actgp.load(tmp_path / "prices.actgp")
    assert isinstance(again, actgp.DGPRegressor)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(again.log_density(X, y), fitted.log_density(X, y))
    assert again.student_ is not None
    rows = torch.from_numpy(X)
    own, theirs, teacher = student.predict(rows), again.student_.predict(rows), fitted.predict_dist(X)
    torch.testing.assert_close(own.mean, theirs.mean)
    assert (own.log_prob(torch.from_numpy(y)).mean() - teacher.log_prob(torch.from_numpy(y)).mean()).abs() < 0.3


@pytest.mark.filterwarnings("ignore::actgp.FidelityWarning")
@pytest.mark.skipif(shutil.which("node") is None, reason="node runs JavaScript")
def test_javascript_keeps_it(fitted: actgp.DGPRegressor, prices: Data) -> None:
    rows = torch.from_numpy(prices[0][:3])
    student = actgp.distill(fitted, torch.from_numpy(prices[0]), num_places=300, num_steps=30)
    wanted = student.predict(rows)
    script = (
        f"{javascript(student)}\nconst rows = {json.dumps(rows.tolist())};\nconsole.log(JSON.stringify(rows.map((x) =>"
    )
    script += (
        "{const said = student.predict(x); return [said.mean, student.interval(said), student.density(said, 1e5)]})))"
    )
    ran = subprocess.run(["node", "-"], input=script, check=True, capture_output=True, text=True)
    density = wanted.log_prob(torch.full((3,), 1e5).double()).exp()
    lower, upper = wanted.interval()
    for i, (mean, ends, at) in enumerate(json.loads(ran.stdout)):
        np.testing.assert_allclose(mean, [wanted.mean[i]], rtol=1e-4)  # the student is in single precision
        np.testing.assert_allclose([ends["lower"][0], ends["upper"][0]], [lower[i], upper[i]], rtol=1e-4)
        np.testing.assert_allclose(at, density[i], rtol=1e-3)


def test_a_single_deep_gp_is_given_y_itself(prices: Data) -> None:
    single = regressor().fit(*prices)
    assert not single.target_tail_.changes
    assert isinstance(single.predict_dist(prices[0]), Normals)
