"""Dates and durations are columns of X like others; as targets, they are refused by the name of their column."""

import datetime

import numpy as np
import pandas as pd
import pytest
from small_estimators import Data, classifier, regressor

import actgp

N = 60
DAYS = np.datetime64("2024-01-01") + np.arange(N)
NUMBERS = np.linspace(-1.0, 1.0, N)
STAMPS = pd.date_range("2024-01-01", periods=N, tz="UTC")

TABLES = {
    "array": DAYS[:, None],
    "durations": (DAYS - DAYS[0])[:, None],
    "objects": np.stack([NUMBERS, DAYS.astype(object)], axis=1, dtype=object),
    "list": [[0.5, datetime.datetime(2024, 1, day + 1)] for day in range(20)] * 3,
    "time zone": pd.DataFrame({"when": STAMPS}),
    "beside others": pd.DataFrame({"size": NUMBERS, "when": DAYS}),
    "numbered columns": pd.DataFrame({2: NUMBERS, 7: DAYS}),
}
ESTIMATORS = {"regressor": regressor, "classifier": classifier}


@pytest.mark.parametrize("case", TABLES)
def test_dates_are_inputs_like_others(case: str) -> None:
    X = TABLES[case]
    assert np.isfinite(regressor().fit(X, NUMBERS).predict(X)).all()


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


def test_dates_where_there_were_numbers_are_refused(table: Data, one_target: actgp.DGPRegressor) -> None:
    with pytest.raises(
        ValueError, match="column 0 must hold what it held in fit, number, got date, such as '2024-01-01"
    ):
        one_target.predict(np.stack([DAYS, DAYS], axis=1))
    with pytest.raises(TypeError, match=r"y must hold numbers or labels, got datetime64\[D\] in column 0"):
        one_target.log_density(table[0], DAYS)
    with pytest.raises(TypeError, match=r"y must hold numbers or labels, got datetime64\[D\] in column 0"):
        one_target.score(table[0], DAYS)


def test_a_refused_fit_leaves_the_last_one_in_place(table: Data) -> None:
    model = regressor().fit(*table)
    before = model.predict(table[0])
    with pytest.raises(TypeError, match="y must hold numbers or labels"):
        model.fit(table[0], DAYS)
    assert np.array_equal(model.predict(table[0]), before)


def test_numbers_of_days_are_what_the_remedy_gives() -> None:
    X = (DAYS[:, None] - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")
    assert np.isfinite(regressor().fit(X, NUMBERS).predict(X)).all()


def test_objects_that_are_numbers_are_taken(table: Data, one_target: actgp.DGPRegressor) -> None:
    assert np.array_equal(one_target.predict(table[0].astype(object)), one_target.predict(table[0]))
