"""What is understood of columns, and the numbers that they become."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from small_estimators import classifier, regressor

import actgp
from actgp.estimators.columns import MOST_CATEGORIES, DateColumn, TextColumn, enough
from actgp.estimators.encoding import Encoding
from actgp.estimators.frames import read

N = 60
RANDOM = np.random.default_rng(0)
WHEN = pd.date_range("2024-01-01", periods=N, freq="100h")


def people() -> pd.DataFrame:
    """Columns of all kinds."""
    return pd.DataFrame(
        {
            "size": np.where(np.arange(N) % 4 == 0, np.nan, RANDOM.normal(size=N)),
            "colour": np.resize(["red", "green", "blue", None], N),
            "member": np.resize([True, False, True], N),
            "since": WHEN,
            "name": [f"person {i}" for i in range(N)],
            "income": [f"{i}.5" for i in range(N)],
            "country": "here",
            "empty": np.nan,
            "constant": 3.0,
        }
    )


@pytest.fixture(scope="module")
def fitted() -> actgp.DGPRegressor:
    X = people()
    return regressor().fit(X, X["colour"].eq("red") + X["size"].fillna(0.0))


def encoded(X: Any) -> tuple[Encoding, np.ndarray[Any, Any]]:
    table = read(X)
    columns = Encoding.learn(table)
    return columns, columns.encode(table)


def test_it_learns_from_all_of_them(fitted: actgp.DGPRegressor) -> None:
    X = people()
    assert fitted.n_features_in_ == 9
    assert fitted.feature_names_in_.tolist() == list(X.columns)
    low, high = (fitted.predict(X.assign(colour=colour)).mean() for colour in ("green", "red"))
    assert 0.5 < high - low < 1.5


def test_what_was_understood_is_said(fitted: actgp.DGPRegressor) -> None:
    columns = fitted.columns_
    assert [column.kind for column in columns] == [
        *("number", "text", "boolean", "date", "text", "text", "text", "nothing", "number")
    ]
    assert {column.name: column.dropped for column in columns if column.dropped} == {
        "name": "text that differs in nearly every row",
        "income": "text that differs in nearly every row; it looks like numbers: convert it with "
        "pd.to_numeric(…, errors='coerce')",
        "country": "the same in all rows",
        "empty": "all values are missing",
    }
    assert columns["size"].missing == 15
    assert len(columns) == len(columns.names) == 9
    printed = str(columns).splitlines()
    assert "colour    text           15        4  blue, green, red, missing" in printed
    assert "empty     nothing        60        0  dropped: all values are missing" in printed
    assert len(columns.outputs) == len(columns.flags) == fitted.model_.input_dim


def test_numbers_and_where_they_are_missing() -> None:
    columns, matrix = encoded(pd.DataFrame({"a": [1.0, np.nan, 3.0, 5.0, np.nan]}))
    assert columns.outputs == ["a", "a is missing"]
    np.testing.assert_array_equal(matrix, [[1, 0], [3, 1], [3, 0], [5, 0], [3, 1]])
    assert not columns.are_numbers
    columns, matrix = encoded(np.array([[1.0], [np.nan], [3.0], [4.0]]))  # too few for a column
    np.testing.assert_array_equal(matrix, [[1], [3], [3], [4]])
    np.testing.assert_array_equal(columns.encode(read([[None], [7]])), [[3], [7]])


def test_numbers_alone_stay_what_they_are() -> None:
    X = RANDOM.normal(size=(9, 3))
    columns, matrix = encoded(X)
    np.testing.assert_array_equal(matrix, X)
    assert columns.are_numbers
    assert not any(columns.flags)


def test_text() -> None:
    given = ["b", "a", None, "c", "a", "b", "a", "rare", None, "c"]
    columns, matrix = encoded(pd.DataFrame({"x": given}))
    assert columns.outputs == ["x is a", "x is b", "x is c", "x is missing"]
    shares = [0.3, 0.2, 0.2, 0.2]
    one_hot = {"a": [1, 0, 0, 0], "b": [0, 1, 0, 0], "c": [0, 0, 1, 0], None: [0, 0, 0, 1], "rare": shares}
    np.testing.assert_allclose(matrix, [one_hot[word] for word in given])
    unseen = columns.encode(read(pl.DataFrame({"x": ["never seen", "a"]})))
    np.testing.assert_allclose(unseen, [shares, one_hot["a"]])
    assert all(columns.flags)


def test_of_two_categories_one_column_suffices() -> None:
    columns, matrix = encoded(pd.DataFrame({"x": ["no", "yes", "no", "yes"]}))
    assert columns.outputs == ["x is yes"]
    np.testing.assert_array_equal(matrix, [[0], [1], [0], [1]])
    missing = columns.encode(read(pd.DataFrame({"x": [None]})))
    np.testing.assert_array_equal(missing, [[0.5]])


def test_rare_categories_are_one() -> None:
    given = [f"word {i}" for i in range(50) for _ in range(60 - i)]
    column = Encoding.learn(read(pd.DataFrame({"x": given})))["x"]
    assert isinstance(column, TextColumn)
    assert column.levels == [*sorted(f"word {i}" for i in range(MOST_CATEGORIES)), "another"]
    assert sum(column.shares) == pytest.approx(1.0)


def test_numbers_where_categories_were_whole_numbers() -> None:
    columns, matrix = encoded(pd.DataFrame({"zip": pd.Categorical([10, 20, 10, 30, 20, 30])}))
    np.testing.assert_array_equal(columns.encode(read(pd.DataFrame({"zip": [10, 20, 10, 30, 20, 30]}))), matrix)


def test_dates() -> None:
    columns, matrix = encoded(pd.DataFrame({"t": WHEN}))
    assert columns.outputs == [
        "t",
        *(f"{wave} of t in the {part}" for part in ("year", "week", "day") for wave in ("sine", "cosine")),
    ]
    np.testing.assert_allclose(np.diff(matrix[:, 0]), 100 / 24)
    np.testing.assert_allclose(matrix[:, 1::2] ** 2 + matrix[:, 2::2] ** 2, 1.0)
    week_later = columns.encode(read(pd.DataFrame({"t": WHEN + pd.Timedelta(days=7)})))
    np.testing.assert_allclose(week_later[:, 3:], matrix[:, 3:], atol=1e-9)
    text = columns.encode(read(pd.DataFrame({"t": WHEN.strftime("%Y-%m-%d %H:%M")})))
    np.testing.assert_array_equal(text, matrix)
    gap = columns.encode(read(pd.DataFrame({"t": [None]})))
    assert gap[0, 0] == np.median(matrix[:, 0])


@pytest.mark.parametrize(
    ("step", "parts"), [("1D", ["days", "week"]), ("1h", ["days", "day"]), ("7D", ["days", "year", "week"])]
)
def test_parts_of_dates_that_do_not_differ_are_left_out(step: str, parts: list[str]) -> None:
    column = Encoding.learn(read(pd.DataFrame({"t": pd.date_range("2024-01-01", periods=40, freq=step)})))["t"]
    assert isinstance(column, DateColumn)
    assert column.parts == parts


def test_missing_dates_and_times() -> None:
    given = pd.DataFrame({"t": [*WHEN[:10], pd.NaT, pd.NaT], "at": [*WHEN[:10].time, None, None]})
    columns, matrix = encoded(given)
    np.testing.assert_array_equal(matrix[:, columns.outputs.index("t is missing")], [0] * 10 + [1] * 2)
    assert columns["at"].outputs == ["sine of at in the day", "cosine of at in the day", "at is missing"]
    assert Encoding.learn(read(pd.DataFrame({"t": [WHEN[0]] * 5})))["t"].dropped == "the same in all rows"


def test_a_table_of_which_nothing_is_left() -> None:
    X = pd.DataFrame({"name": [f"{i}th" for i in range(N)], "country": "here"})
    model = regressor().fit(X, np.arange(N))
    assert model.columns_.outputs == ["nothing"]
    assert np.ptp(model.predict(X)) == 0.0


def test_columns_are_found_by_name(fitted: actgp.DGPRegressor) -> None:
    X = people()
    expected = fitted.predict(X)
    np.testing.assert_array_equal(fitted.predict(X[X.columns[::-1]].assign(more=1.0)), expected)
    np.testing.assert_array_equal(fitted.predict(pl.from_pandas(X)), expected)
    np.testing.assert_array_equal(fitted.predict(pl.from_pandas(X).to_arrow()), expected)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(fitted.predict(X.to_numpy(dtype=object)), expected)


def test_what_is_wrong_with_a_column_is_said(fitted: actgp.DGPRegressor) -> None:
    X = people()
    for bad, message in (
        (
            X.rename(columns={"colour": "color"}),
            r"must have the column 'colour' .*, got \['color'\] besides; rename 'co",
        ),
        (
            X.drop(columns="size"),
            r"must have the column 'size' that there was in fit, got \[\] besides; add it; missing",
        ),
        (
            X.assign(colour=1.5),
            "column 'colour' must hold what it held in fit, text, got number, such as '1.5'; convert",
        ),
        (
            X.assign(size="big"),
            "column 'size' must hold what it held in fit, number, got text, such as 'big'; convert it",
        ),
        (
            X.assign(since=WHEN.tz_localize("UTC")),
            "dates in column 'since' must have .* none, got one; .*localize.None",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.predict(bad)
    zoned = regressor().fit(X.assign(since=WHEN.tz_localize("UTC")), np.arange(N))
    with pytest.raises(ValueError, match=r"which had one, got none; call .dt.tz_localize\('UTC'\)"):
        zoned.predict(X)
    np.testing.assert_array_equal(fitted.predict(X.assign(empty="text", name=3.0)), fitted.predict(X))  # not used


def test_sparse_rows_predict_as_dense_ones() -> None:
    X = RANDOM.poisson(0.3, size=(N, 4)).astype(float)
    model = classifier().fit(X, X[:, 0] > 0)
    from_sparse = classifier().fit(csr_array(X), X[:, 0] > 0)
    np.testing.assert_array_equal(from_sparse.predict_proba(X), model.predict_proba(X))


def test_rare_flags_are_not_stretched() -> None:
    X = pd.DataFrame({"x": ["rare"] * 10 + ["often"] * 490, "size": RANDOM.normal(size=500)})
    model = regressor(recipe=actgp.Recipe(network_steps=1, num_steps=1)).fit(X, np.arange(500))
    assert model.input_scaler_.scale_[0] == 0.2
    assert model.input_scaler_.scale_[1] == pytest.approx(X["size"].std(ddof=0))


@pytest.mark.parametrize(("num_rows", "expected"), [(3, 2), (100, 2), (300, 6), (10_000, 10), (100_000, 60)])
def test_how_many_rows_are_enough(num_rows: int, expected: int) -> None:
    assert enough(num_rows) == expected
