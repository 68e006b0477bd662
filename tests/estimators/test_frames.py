"""Tables of every make are read into the same columns."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from actgp.estimators.frames import Values, read

NAN = float("nan")
HOUR = np.timedelta64(1, "h")
DAYS = np.array(["2024-02-28", "NaT", "2024-03-01"], dtype="datetime64[us]")
CET = dt.timezone(dt.timedelta(hours=1))


def numbers(*values: float) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def words(*values: str | None) -> NDArray[Any]:
    return np.array(values, dtype=object)


def moments(*values: str) -> NDArray[Any]:
    return np.array(values, dtype="datetime64[us]")


COLUMNS: dict[str, tuple[Any, Values]] = {
    "whole numbers": ([1, 2, 3], Values("number", numbers(1, 2, 3))),
    "nullable": (pd.array([1, None, 3], dtype="Int64"), Values("number", numbers(1, NAN, 3))),
    "decimals": ([Decimal("1.5"), None, Decimal(2)], Values("number", numbers(1.5, NAN, 2))),
    "objects": (pd.Series([1, None, 2.5], dtype=object), Values("number", numbers(1, NAN, 2.5))),
    "sparse": (pd.arrays.SparseArray([0.0, 1.0, 0.0]), Values("number", numbers(0, 1, 0))),
    "booleans": ([True, False, True], Values("boolean", numbers(1, 0, 1))),
    "with gaps": (pd.Series([True, None, False], dtype=object), Values("boolean", numbers(1, NAN, 0))),
    "nullable booleans": (pd.array([True, None, False], dtype="boolean"), Values("boolean", numbers(1, NAN, 0))),
    "text": (["a", None, "b"], Values("text", words("a", None, "b"))),
    "categories": (pd.Categorical(["b", None, "a"]), Values("text", words("b", None, "a"))),
    "numbered categories": (pd.Categorical([2, None, 1]), Values("text", words("2", None, "1"))),
    "mixed": (pd.Series(["a", 3.0, True], dtype=object), Values("text", words("a", "3", "True"))),
    "moments": (DAYS, Values("date", DAYS)),
    "dates": ([dt.date(2024, 2, 28), None, dt.date(2024, 3, 1)], Values("date", DAYS)),
    "text of dates": (["2024-02-28", None, "2024-03-01"], Values("date", DAYS)),
    "no dates": (["2024-02-30", None, "2024-03-01"], Values("text", words("2024-02-30", None, "2024-03-01"))),
    "of a zone": (pd.DatetimeIndex(DAYS).tz_localize("Europe/Paris"), Values("date", DAYS - HOUR, True)),
    "objects of a zone": (
        pd.Series([dt.datetime(2024, 2, 28, tzinfo=CET), None, dt.datetime(2024, 3, 1, tzinfo=CET)], dtype=object),
        Values("date", DAYS - HOUR, True),
    ),
    "months": (
        pd.period_range("2024-02", periods=3, freq="M"),
        Values("date", moments("2024-02", "2024-03", "2024-04")),
    ),
    "durations": (pd.to_timedelta([36, None, 12], unit="h"), Values("duration", numbers(1.5, NAN, 0.5))),
    "objects of durations": (
        pd.Series([dt.timedelta(1.5), None, dt.timedelta(0.5)], dtype=object),
        Values("duration", numbers(1.5, NAN, 0.5)),
    ),
    "times": ([dt.time(6), None, dt.time(18, 30)], Values("time", moments("1970-01-01T06", "NaT", "1970-01-01T18:30"))),
    "nothing": ([None, NAN, pd.NaT], Values("nothing", numbers(NAN, NAN, NAN))),
    "no moments": (pd.to_datetime([None, None, None]), Values("nothing", numbers(NAN, NAN, NAN))),
}


def assert_column(values: Values, expected: Values) -> None:
    assert (values.kind, values.aware) == (expected.kind, expected.aware)
    assert values.array.dtype == expected.array.dtype
    np.testing.assert_array_equal(values.array, expected.array)


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_of_pandas(case: str) -> None:
    given, expected = COLUMNS[case]
    table = read(pd.DataFrame({"first": [0.0, 1.0, 2.0], "second": given}))
    assert table.names == ["first", "second"]
    assert_column(table.columns[1], expected)


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table], ids=["polars", "pyarrow"])
def test_other_frames_hold_the_same(make: Any) -> None:
    given: dict[str, list[Any]] = {
        "number": [1, None, 3],
        "decimal": [Decimal("1.5"), None, Decimal(2)],
        "boolean": [True, None, False],
        "text": ["a", None, "b"],
        "date": [dt.date(2024, 2, 28), None, dt.date(2024, 3, 1)],
        "moment": DAYS.tolist(),
        "duration": [dt.timedelta(1.5), None, dt.timedelta(0.5)],
        "time": [dt.time(6), None, dt.time(18, 30)],
        "nothing": [None, None, None],
    }
    ours, theirs = read(make(given)), read(pd.DataFrame(given))
    assert ours.names == theirs.names == list(given)
    for one, other in zip(ours.columns, theirs.columns, strict=True):
        assert_column(one, other)


def test_categories_and_zones_of_polars() -> None:
    frame = pl.DataFrame({"text": ["a", None, "b"], "when": DAYS}).with_columns(
        pl.col("text").cast(pl.Categorical), pl.col("when").dt.replace_time_zone("Europe/Paris")
    )
    text, when = read(frame).columns
    assert_column(text, Values("text", words("a", None, "b")))
    assert_column(when, Values("date", DAYS - HOUR, True))


def test_arrays_lists_and_sparse_matrices() -> None:
    X = np.array([[0.0, 1.5], [2.0, NAN]])
    sparse = csr_array(np.nan_to_num(X))
    for given, expected in ((X, X), (X.astype(np.float32), X), (X.tolist(), X), (sparse, sparse.toarray())):
        table = read(given)
        assert (table.labels, table.names) == (range(2), None)
        for j, column in enumerate(table.columns):
            assert_column(column, Values("number", expected[:, j]))
    mixed = read([[0.5, "a", True], [1.5, "b", False]]).columns
    assert [column.kind for column in mixed] == ["number", "text", "boolean"]
    assert [column.kind for column in read(DAYS[[0, 2]][:, None]).columns] == ["date"]
    assert read(np.array([["a"], ["b"]])).columns[0].kind == "text"


def test_tables_that_cannot_be_read() -> None:
    twice = pd.DataFrame(np.zeros((2, 3)), columns=["a", "b", "a"])
    with pytest.raises(ValueError, match=r"columns of different names, got \['a'\] more than once; rename or drop"):
        read(twice)
    with pytest.raises(ValueError, match="contains infinity in column 'b', first in row 1; replace it by NaN"):
        read(pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, -np.inf]}))
    with pytest.raises(
        TypeError, match="must hold numbers, text or dates: .* got dict, float in column 'a'; convert the col"
    ):
        read(pd.DataFrame({"a": [{}, 1.0]}))
    with pytest.raises(TypeError, match="got complex128 in column 'a'"):
        read(pd.DataFrame({"a": [1j, 2j]}))
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        read(pd.DataFrame({"a": []}))
    with pytest.raises(ValueError, match="Found array with 0 feature"):
        read(pd.DataFrame(index=range(3)))
    with pytest.raises(ValueError, match="a sparse X must have at most .* got shape .*; reduce it, e.g. with sklearn"):
        read(csr_array((40_000, 40_000)))
