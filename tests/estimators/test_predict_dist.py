"""What estimators say beyond means: whole distributions, quantiles, relevance, and how unlike a row is."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import TransformedTargetRegressor
from sklearn.feature_selection import RFE
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from small_estimators import Data, classifier, regressor

import actgp
from actgp.distil import Classes, Normals


def test_a_distribution_in_the_units_of_y(one_target: actgp.DGPRegressor, table: Data) -> None:
    X, y = table
    said = one_target.predict_dist(X)
    assert isinstance(said, Normals)
    mean, std = one_target.predict(X, return_std=True)
    np.testing.assert_allclose(said.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(said.std, std, rtol=1e-5)
    np.testing.assert_allclose(said.log_prob(torch.from_numpy(y)), one_target.log_density(X, y), atol=1e-4)
    parts = said.epistemic_std.square() + said.aleatoric_std.square()
    torch.testing.assert_close(parts, said.std.square())


def test_of_several_targets_and_of_labels(
    two_targets: actgp.DGPRegressor, three_classes: actgp.DGPClassifier, table: Data
) -> None:
    X = pd.DataFrame(table[0], columns=["first", "second"])
    of_two = two_targets.predict_dist(X)
    np.testing.assert_allclose(of_two[0], two_targets.predict(X), rtol=1e-6)
    labels = three_classes.predict_dist(table[0])
    assert isinstance(labels, Classes)
    np.testing.assert_allclose(labels.probabilities, three_classes.predict_proba(table[0]), rtol=1e-5)


def test_the_distribution_function_is_that_of_quantiles(one_target: actgp.DGPRegressor, table: Data) -> None:
    X, _ = table
    levels = [0.025, 0.3, 0.975]
    for level, values in zip(levels, one_target.quantile(X, levels).T, strict=True):
        below = one_target.predict_dist(X).cdf(torch.from_numpy(values))  # type: ignore[union-attr]
        np.testing.assert_allclose(below, level, atol=1e-5)


def test_rows_far_away_are_unlike_those_of_fit(one_target: actgp.DGPRegressor, table: Data) -> None:
    X, _ = table
    assert (one_target.outlyingness(X) == 0).all()  # each is one of them
    assert (one_target.outlyingness(X + 100 * X.std(0)) == 1).all()


def test_outlyingness_of_like_rows_is_uniform() -> None:
    """As long as rows are exchangeable: distances to the nearest other one have the same distribution."""
    random = np.random.default_rng(0)
    fitted = regressor().fit(random.normal(size=(400, 2)), random.normal(size=400))
    found = fitted.outlyingness(random.normal(size=(2_000, 2)))
    for level in (0.5, 0.9, 0.99):
        assert np.mean(found < level) == pytest.approx(level, abs=0.06)


def test_relevance_is_the_total_effect() -> None:
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(200, 3)), columns=list("abc")).assign(word=random.choice(["x", "y"], 200))
    y = 3 * X["a"] + X["b"] + (X["word"] == "x")
    fitted = regressor(recipe=actgp.Recipe(network_steps=300, num_steps=20)).fit(X, y)
    a, b, c, word = fitted.feature_relevance_
    assert a > b > c
    assert word > c
    assert a == pytest.approx(9 / (9 + 1 + 0.25), abs=0.15)  # of an additive function: its part of the variance
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    np.testing.assert_allclose(fitted.feature_importances_ * fitted.feature_relevance_.sum(), fitted.feature_relevance_)


def test_columns_that_are_left_out_and_constant_predictions_have_no_relevance() -> None:
    X = pd.DataFrame({"name": [f"n{i}" for i in range(30)]})
    fitted = regressor().fit(X, np.arange(30.0))
    assert fitted.feature_relevance_.tolist() == [0.0]
    assert fitted.feature_importances_.tolist() == [1.0]


def test_recursive_elimination_finds_columns(table: Data) -> None:
    X = np.column_stack([table[0], np.random.default_rng(0).normal(size=60)])
    recipe = actgp.Recipe(network_steps=200, num_steps=10)
    assert RFE(regressor(recipe=recipe), n_features_to_select=1).fit(X, table[1]).support_.tolist() == [
        True,
        False,
        False,
    ]


def test_what_training_did_is_kept(one_target: actgp.DGPRegressor, two_classes: actgp.DGPClassifier) -> None:
    for fitted in (one_target, two_classes):
        assert isinstance(fitted.report_, actgp.FitResult)


def test_intervals_through_a_pipeline_and_a_transformed_target(table: Data) -> None:
    """As docs/tables.md says."""
    X, y = table
    pipe = make_pipeline(StandardScaler(), regressor()).fit(X, y)
    mean, std = pipe.predict(X, return_std=True)
    assert (std > 0).all()
    lower, upper = pipe[-1].predict_interval(pipe[:-1].transform(X))
    assert ((lower < mean) & (mean < upper)).all()
    logs = FunctionTransformer(np.log, np.exp, check_inverse=False)
    outer = TransformedTargetRegressor(regressor(), transformer=logs).fit(X, y)
    median = np.exp(outer.regressor_.quantile(X, 0.5))
    ends = [np.exp(end) for end in outer.regressor_.predict_interval(X)]
    assert ((ends[0] < median) & (median < ends[1])).all()


@pytest.mark.parametrize("labels", [["a", None] * 30, np.array([1.0, np.nan] * 30, dtype=object)])
def test_labels_that_are_missing_are_named(labels: Any, table: Data) -> None:
    with pytest.raises(ValueError, match="y must have no missing values, got 30 in column 0, the first in row 1"):
        classifier().fit(table[0], labels)
