"""Dates and durations, which numpy would take for numbers, are refused by the name of their column."""

import datetime
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from small_estimators import Data, classifier, regressor

import actgp

N = 60
DAYS = np.datetime64("2024-01-01") + np.arange(N)
NUMBERS = np.linspace(-1.0, 1.0, N)
STAMPS = pd.date_range("2024-01-01", periods=N, tz="UTC")

# X, and what the error says of it
TABLES = {
    "array": (DAYS[:, None], r"datetime64\[D\] in column 0"),
    "durations": ((DAYS - DAYS[0])[:, None], r"timedelta64\[D\] in column 0"),
    "objects": (np.stack([NUMBERS, DAYS.astype(object)], axis=1, dtype=object), "date in column 1"),
    "list": ([[0.5, datetime.datetime(2024, 1, day + 1)] for day in range(20)] * 3, "datetime in column 1"),
    "lone column": (pd.DataFrame({"when": DAYS}), r"datetime64\[s\] in column 'when'"),
    "lone duration": (pd.DataFrame({"age": DAYS - DAYS[0]}), r"timedelta64\[s\] in column 'age'"),
    "lone column of a time zone": (pd.DataFrame({"when": STAMPS}), "Timestamp in column 'when'"),
    "column beside others": (pd.DataFrame({"size": NUMBERS, "when": DAYS}), "Timestamp in column 'when'"),
    "duration beside others": (pd.DataFrame({"age": DAYS - DAYS[0], "size": NUMBERS}), "Timedelta in column 'age'"),
    "two kinds": (pd.DataFrame({"age": DAYS - DAYS[0], "when": DAYS}), "Timedelta in column 'age'"),
    "missing dates": (pd.DataFrame({"size": NUMBERS, "when": [pd.NaT] * N}), "NaTType in column 'when'"),
    "times": (np.array([[datetime.time(hour % 24)] for hour in range(N)], dtype=object), "time in column 0"),
    "periods": (
        pd.DataFrame({"size": NUMBERS, "month": pd.period_range("2020-01", periods=N)}),
        "Period in column 'month'",
    ),
    "numbered columns": (pd.DataFrame({2: NUMBERS, 7: DAYS}), "Timestamp in column 7"),
}
ESTIMATORS = {"regressor": regressor, "classifier": classifier}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", TABLES)
def test_dates_in_the_inputs_are_refused(estimator: str, case: str) -> None:
    X, found = TABLES[case]
    model = ESTIMATORS[estimator]()
    with pytest.raises(TypeError, match=f"X must hold numbers, got {found}; convert dates and durations to numbers"):
        model.fit(X, np.arange(N) % 2)
    assert not [name for name in vars(model) if name.endswith("_")]


Y = {
    "array": (DAYS, r"datetime64\[D\] in column 0"),
    "column": (pd.Series(DAYS, name="when"), r"datetime64\[s\] in column 'when'"),
    "durations": (pd.Series(DAYS - DAYS[0]), r"timedelta64\[s\] in column 0"),
    "list": ([stamp.to_pydatetime() for stamp in STAMPS], "datetime in column 0"),
    "table": (pd.DataFrame({"size": NUMBERS, "when": DAYS}), "Timestamp in column 'when'"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", Y)
def test_dates_as_targets_are_refused(estimator: str, case: str) -> None:
    y, found = Y[case]
    model = ESTIMATORS[estimator]()
    with pytest.raises(
        TypeError, match=f"y must hold numbers or labels, got {found}; convert dates and durations to numbers"
    ):
        model.fit(NUMBERS[:, None], y)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_dates_in_rows_to_predict_are_refused(
    table: Data, one_target: actgp.DGPRegressor, three_classes: actgp.DGPClassifier
) -> None:
    dates = np.stack([DAYS, DAYS], axis=1)
    calls: list[Callable[[object], object]] = [
        one_target.predict,
        one_target.predict_interval,
        one_target.sample_y,
        lambda X: one_target.log_density(X, table[1]),
        three_classes.predict,
        three_classes.predict_proba,
        three_classes.predict_log_proba,
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"X must hold numbers, got datetime64\[D\] in column 0"):
            call(dates)
    with pytest.raises(TypeError, match=r"y must hold numbers or labels, got datetime64\[D\] in column 0"):
        one_target.log_density(table[0], DAYS)
    with pytest.raises(TypeError, match=r"y must hold numbers or labels, got datetime64\[D\] in column 0"):
        one_target.score(table[0], DAYS)


def test_a_refused_fit_leaves_the_last_one_in_place(table: Data) -> None:
    model = regressor().fit(*table)
    before = model.predict(table[0])
    with pytest.raises(TypeError, match="X must hold numbers"):
        model.fit(DAYS[:, None], table[1])
    assert np.array_equal(model.predict(table[0]), before)


def test_numbers_of_days_are_what_the_remedy_gives() -> None:
    X = (DAYS[:, None] - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")
    assert np.isfinite(regressor().fit(X, NUMBERS).predict(X)).all()


def test_objects_that_are_numbers_are_taken(table: Data, one_target: actgp.DGPRegressor) -> None:
    assert np.array_equal(one_target.predict(table[0].astype(object)), one_target.predict(table[0]))
