"""MAPIE and crepes use our standard deviations as they should, and their intervals are those of their definition."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from quick_table import CALIBRATION, TEST, Table

import actgp


def half_widths(intervals: NDArray[np.float64], std: NDArray[np.float64]) -> NDArray[np.float64]:
    return (intervals[:, 1] - intervals[:, 0]) / 2 / std


def expected(regressor: actgp.DGPRegressor, table: Table, level: float) -> float:
    """The ⌈level (n + 1)⌉-th of the calibration rows' errors, in standard deviations."""
    mean, std = regressor.predict(table.X[CALIBRATION], return_std=True)
    scores = np.sort(np.abs(table.y[CALIBRATION] - mean) / std)
    return float(scores[math.ceil(level * (len(scores) + 1)) - 1])


def test_mapies_intervals_are_as_many_standard_deviations_everywhere(
    regressor: actgp.DGPRegressor, table: Table
) -> None:
    mapie = pytest.importorskip("mapie.regression")
    conformal = mapie.SplitConformalRegressor(regressor, 0.9, conformity_score="std_normalized", prefit=True)
    conformal.conformalize(table.X[CALIBRATION], table.y[CALIBRATION])
    mean, intervals = conformal.predict_interval(table.X[TEST])
    own, std = regressor.predict(table.X[TEST], return_std=True)
    np.testing.assert_array_equal(mean, own)
    widths = half_widths(intervals[..., 0], std)
    np.testing.assert_allclose(widths, widths[0], rtol=1e-9)
    assert widths[0] == pytest.approx(expected(regressor, table, 0.9), rel=0.05)  # its quantile interpolates
    inside = (intervals[:, 0, 0] < table.y[TEST]) & (table.y[TEST] < intervals[:, 1, 0])
    assert inside.mean() > 0.75


def test_mapies_sets_of_labels(classifier: actgp.DGPClassifier, table: Table) -> None:
    mapie = pytest.importorskip("mapie.classification")
    conformal = mapie.SplitConformalClassifier(classifier, 0.9, prefit=True)
    conformal.conformalize(table.X[CALIBRATION], table.labels[CALIBRATION])
    labels, sets = conformal.predict_set(table.X[TEST])
    np.testing.assert_array_equal(labels, classifier.predict(table.X[TEST]))
    assert sets[np.arange(40), table.labels[TEST], 0].mean() > 0.75


def test_mapie_fits_clones(regressor: actgp.DGPRegressor, table: Table) -> None:
    mapie = pytest.importorskip("mapie.regression")
    crossed = mapie.CrossConformalRegressor(regressor, 0.9, cv=3)
    crossed.fit_conformalize(table.X[CALIBRATION], table.y[CALIBRATION])
    assert crossed.predict_interval(table.X[TEST])[1].shape == (40, 2, 1)


def test_crepes_intervals_are_as_many_standard_deviations_everywhere(
    regressor: actgp.DGPRegressor, table: Table
) -> None:
    crepes, extras = pytest.importorskip("crepes"), pytest.importorskip("crepes.extras")
    difficulty = extras.DifficultyEstimator()
    difficulty.fit(table.X[CALIBRATION], f=lambda X: regressor.predict(X, return_std=True)[1], beta=0.0)
    wrapped = crepes.WrapRegressor(regressor)
    wrapped.calibrate(table.X[CALIBRATION], table.y[CALIBRATION], de=difficulty)
    widths = half_widths(
        wrapped.predict_int(table.X[TEST], confidence=0.9), regressor.predict(table.X[TEST], return_std=True)[1]
    )
    np.testing.assert_allclose(widths, expected(regressor, table, 0.9), rtol=1e-9)


def test_crepes_sets_of_labels(classifier: actgp.DGPClassifier, table: Table) -> None:
    crepes = pytest.importorskip("crepes")
    wrapped = crepes.WrapClassifier(classifier)
    wrapped.calibrate(table.X[CALIBRATION], table.labels[CALIBRATION])
    sets = wrapped.predict_set(table.X[TEST], confidence=0.9)
    assert np.mean([label in labels for label, labels in zip(table.labels[TEST], sets, strict=True)]) > 0.75
