import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from small_estimators import Data, regressor

import actgp
from actgp.likelihoods import adapter_of


def test_it_learns(one_target: actgp.DGPRegressor, table: Data) -> None:
    X, y = table
    assert one_target.score(X, y) > 0.9


def test_everything_is_in_the_units_of_y(table: Data) -> None:
    """An affine map of y, and one of each column of X, changes nothing but units."""
    X, y = table
    plain = regressor().fit((X - [0.0, 1e5]) / [1.0, 1e4], y)
    other = regressor().fit(X, 3.0 * y - 7.0)
    scaled = (X - [0.0, 1e5]) / [1.0, 1e4]
    mean, std = plain.predict(scaled, return_std=True)
    moved, wider = other.predict(X, return_std=True)
    np.testing.assert_allclose(moved, 3.0 * mean - 7.0, rtol=1e-5)
    np.testing.assert_allclose(wider, 3.0 * std, rtol=1e-4)
    for end, moved_end in zip(plain.predict_interval(scaled), other.predict_interval(X), strict=True):
        np.testing.assert_allclose(moved_end, 3.0 * end - 7.0, rtol=1e-5)
    np.testing.assert_allclose(
        other.log_density(X, 3.0 * y - 7.0), plain.log_density(scaled, y) - np.log(3.0), rtol=1e-4, atol=1e-4
    )
    draws, moved_draws = plain.sample_y(scaled, 3, random_state=1), other.sample_y(X, 3, random_state=1)
    np.testing.assert_allclose(moved_draws, 3.0 * draws - 7.0, rtol=1e-4)


def test_the_density_has_the_moments_and_quantiles_that_are_predicted(
    one_target: actgp.DGPRegressor, table: Data
) -> None:
    row = table[0][:1]
    (mean,), (std,) = one_target.predict(row, return_std=True)
    y = np.linspace(mean - 60 * std, mean + 60 * std, 20_001)  # outliers reach far
    density = np.exp(one_target.log_density(np.repeat(row, len(y), axis=0), y))
    step = y[1] - y[0]
    assert density.sum() * step == pytest.approx(1.0, rel=1e-6)
    assert (density * y).sum() * step == pytest.approx(mean, rel=1e-6)
    assert (density * (y - mean) ** 2).sum() * step == pytest.approx(std**2, rel=1e-4)
    (lower,), (upper,) = one_target.predict_interval(row, level=0.8)
    assert density[(y > lower) & (y < upper)].sum() * step == pytest.approx(0.8, abs=0.01)


def test_intervals_hold_as_much_as_they_say(one_target: actgp.DGPRegressor, table: Data) -> None:
    X, y = table
    lower, upper = one_target.predict_interval(X, level=0.9)
    assert 0.75 < np.mean((lower < y) & (y < upper)) <= 1.0
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 2"):
        one_target.predict_interval(X, level=2.0)


def test_quantiles_are_where_densities_add_up(
    one_target: actgp.DGPRegressor, two_targets: actgp.DGPRegressor, table: Data
) -> None:
    X, _ = table
    lower, median, upper = one_target.quantile(X, [0.05, 0.5, 0.95]).T
    np.testing.assert_allclose([lower, upper], one_target.predict_interval(X, level=0.9), rtol=1e-12)
    np.testing.assert_array_equal(one_target.quantile(X, 0.5), median)
    y = np.linspace(median[0] - 2_000, median[0], 20_001)
    density = np.exp(one_target.log_density(np.repeat(X[:1], len(y), axis=0), y))
    assert np.trapezoid(density, y) == pytest.approx(0.5, abs=1e-4)
    rows = pd.DataFrame(X, columns=["first", "second"])
    both = two_targets.quantile(rows, [0.3])
    assert both.shape == (60, 2, 1)
    np.testing.assert_allclose(both[..., 0], two_targets.predict_interval(rows, level=0.4)[0], rtol=1e-12)
    with pytest.raises(ValueError, match=r"levels must lie between 0 and 1, got 1.0; pass e.g. \[0.05"):
        one_target.quantile(X, [0.5, 1.0])


def test_rows_do_not_depend_on_each_other(one_target: actgp.DGPRegressor, table: Data) -> None:
    X, _ = table
    together = one_target.predict(X, return_std=True)
    backwards = one_target.predict(X[::-1], return_std=True)
    alone = [one_target.predict(X[i : i + 1], return_std=True) for i in range(3)]
    for part in (0, 1):
        np.testing.assert_allclose(backwards[part][::-1], together[part], rtol=1e-9)
        np.testing.assert_allclose(np.concatenate([a[part] for a in alone]), together[part][:3], rtol=1e-9)


def test_paths_agree_with_those_of_the_model(table: Data) -> None:
    """With many samples, quasi-random paths and the model's own give the same distribution."""
    X, y = table
    fitted = regressor(num_samples=2_048).fit(X, y)
    inputs = torch.from_numpy(fitted.input_scaler_.transform(X[:10]))
    expected = fitted.model_.predict(inputs, 20_000)
    mean, std = fitted.predict(X[:10], return_std=True)
    scale = fitted.target_scaler_.scale_[0]
    np.testing.assert_allclose((mean - fitted.target_scaler_.mean_[0]) / scale, expected.mean, atol=5e-3)
    np.testing.assert_allclose(std / scale, expected.variance.sqrt(), rtol=2e-2)


def test_drawn_functions_have_the_mean_and_spread_of_f(one_target: actgp.DGPRegressor, table: Data) -> None:
    X = table[0][:8]
    draws = one_target.sample_y(X, 200, random_state=0)
    assert draws.shape == (8, 200)
    mean, std = one_target.predict(X, return_std=True)
    noise = adapter_of(one_target.model_.likelihood).noise_variance().item() * one_target.target_scaler_.scale_[0] ** 2
    spread = np.sqrt(std**2 - noise)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=6 * spread.max() / 200**0.5)
    np.testing.assert_allclose(draws.std(axis=1), spread, rtol=0.3)
    same = one_target.sample_y(np.repeat(X[:1], 2, axis=0), 3, random_state=0)  # functions: equal where inputs are
    np.testing.assert_allclose(same[0], same[1], rtol=1e-12)
    assert not np.allclose(same, one_target.sample_y(X[:2], 3, random_state=1))


def test_several_targets(two_targets: actgp.DGPRegressor, table: Data) -> None:
    X, y = table
    rows = pd.DataFrame(X, columns=["first", "second"])
    Y = np.stack([y, -1e-3 * y], axis=1)
    mean, std = two_targets.predict(rows, return_std=True)
    assert mean.shape == std.shape == (60, 2)
    assert two_targets.score(rows, Y) > 0.8
    assert np.all(std[:, 0] > 100 * std[:, 1])
    assert two_targets.predict_interval(rows)[0].shape == (60, 2)
    assert two_targets.sample_y(rows, 4).shape == (60, 2, 4)
    assert two_targets.log_density(rows, Y).shape == (60,)
    with pytest.raises(ValueError, match="y must have 2 columns, as in fit, got 1; select"):
        two_targets.log_density(rows, y)


def test_a_target_of_one_column_stays_a_column(table: Data) -> None:
    X, y = table
    fitted = regressor().fit(X, y[:, None])
    assert fitted.predict(X).shape == (60, 1)
    assert fitted.sample_y(X).shape == (60, 1, 1)


def test_constant_columns_and_targets_are_harmless(table: Data) -> None:
    X, y = table
    constant = np.column_stack([X, np.full(len(X), 3.0)])
    assert regressor().fit(constant, y).score(constant, y) > 0.9
    mean, std = regressor().fit(X, np.full(len(X), 8.0)).predict(X, return_std=True)
    np.testing.assert_allclose(mean, 8.0, atol=0.1)
    assert np.all(std < 0.5)


@pytest.mark.parametrize("num_columns", [1, 20], ids=["one column", "more than are kept inside"])
def test_narrow_and_wide_tables(num_columns: int) -> None:
    X = np.random.default_rng(0).normal(size=(50, num_columns))
    fitted = regressor().fit(X, X[:, 0])
    assert fitted.score(X, X[:, 0]) > 0.5
    assert fitted.model_.gp_layers[0].num_outputs == min(num_columns, 16)


def test_the_same_seed_gives_the_same_model_and_the_global_one_is_left_alone(
    one_target: actgp.DGPRegressor, table: Data
) -> None:
    X, y = table
    before = torch.get_rng_state()
    np.testing.assert_array_equal(regressor().fit(X, y).predict(X), one_target.predict(X))
    assert torch.equal(torch.get_rng_state(), before)
    assert not np.array_equal(regressor(random_state=1).fit(X, y).predict(X), one_target.predict(X))


def test_pickled_it_predicts_the_same_to_the_last_bit(one_target: actgp.DGPRegressor, table: Data) -> None:
    copy = pickle.loads(pickle.dumps(one_target))
    np.testing.assert_array_equal(copy.predict(table[0]), one_target.predict(table[0]))


def test_pipelines_and_searches(table: Data) -> None:
    X, y = table
    assert cross_val_score(make_pipeline(PolynomialFeatures(2), regressor()), X, y, cv=2).min() > 0.5
    search = GridSearchCV(regressor(), {"num_layers": np.array([1, 2])}, cv=2)
    assert search.fit(X, y).best_score_ > 0.7


def test_better_than_a_line_on_real_data() -> None:
    """diabetes, of which linear regression explains half."""
    X, y = load_diabetes(return_X_y=True)
    recipe = actgp.Recipe(network_steps=60, num_steps=40, kl_weight=1.0)
    fitted = regressor(num_inducing=30, recipe=recipe).fit(X[:342], y[:342])
    _, std = fitted.predict(X[342:], return_std=True)
    assert fitted.score(X[342:], y[342:]) > 0.4
    assert fitted.log_density(X[342:], y[342:]).mean() > -5.55  # of a Gaussian with the spread of y: −5.76
    assert np.all((std > 30) & (std < 100))


def test_bad_input_is_refused_before_anything_changes(one_target: actgp.DGPRegressor, table: Data) -> None:
    X, y = table
    fitted = pickle.loads(pickle.dumps(one_target))
    before = dict(vars(fitted))
    broken = np.where(np.arange(60) == 7, np.nan, y)
    for bad_X, bad_y, message in (
        (np.where(X > 1e5, np.inf, X), y, "Input X contains infinity"),
        (X, broken, "Input y contains NaN"),
        (
            X,
            np.where(np.isnan(broken), None, broken),
            "y must have no missing values, got 1 in column 0, the first in row 7",
        ),
        (X[:, 0], y, "Expected 2D array, got 1D array"),
        (X[:1], y[:1], "Found array with 1 sample.* while a minimum of 2 is required"),
        (X[:0], y[:0], "Found array with 0 sample"),
        (X, y[:5], "inconsistent numbers of samples"),
        (1e200 * X, y, "X must have columns whose variance float64 can hold, got .* in column 0; divide X by its size"),
        (X, 1e160 * y, "y must have columns whose variance float64 can hold, got .* in column 0; divide y by its size"),
        (X, np.where(y > 500, "high", "low"), "y must hold real numbers, got <U4 .*; convert it, or use DGPClassifier"),
        (pd.DataFrame(X, columns=["a", "b"]).assign(c=[[]] * 60), y, "got list in column 'c'"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            fitted.fit(bad_X, bad_y)
    assert vars(fitted) == before
    with pytest.raises(ValueError, match="X has 1 features, but DGPRegressor is expecting 2 features"):
        fitted.predict(X[:, :1])
    with pytest.raises(ValueError, match="Input y contains NaN"):
        fitted.log_density(X, broken)
    for level in ("high", None, [0.5, 0.9]):
        with pytest.raises(TypeError, match="level must be a number, got .*; pass e.g. 0.95"):
            fitted.predict_interval(X, level)  # type: ignore[arg-type]
    with pytest.raises(NotFittedError, match="not fitted yet"):
        regressor().sample_y(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
        ({"num_inducing": 1.5}, "num_inducing must be an integer, got 1.5"),
        ({"num_samples": 0}, "num_samples must be at least 1, got 0"),
        ({"layers": {"kernel": "matched"}}, "layers must be an actgp.Layers or None, got dict; pass"),
        ({"recipe": {"num_steps": 5}}, "recipe must be an actgp.Recipe or None, got dict; pass"),
        ({"random_state": "seed"}, "'seed' cannot be used to seed"),
        ({"device": "nowhere"}, "nowhere"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_parameters_are_refused_in_fit(parameters: dict[str, object], message: str, table: Data) -> None:
    estimator = regressor(**parameters)
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        estimator.fit(*table)
    assert not hasattr(estimator, "n_features_in_")
