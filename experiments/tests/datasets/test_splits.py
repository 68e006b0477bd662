import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actgp_experiments import datasets
from actgp_experiments.datasets import Regression, splits
from actgp_experiments.datasets.fingerprint import digest, order


def small(num_rows: int = 33) -> Regression:
    table = np.random.default_rng(0).normal(size=(num_rows, 3))
    return Regression("small", table[:, :2], table[:, 2], ("a", "b"), "c")


@given(num_rows=st.integers(2, 60), test_fraction=st.floats(0.01, 0.5), seed=st.integers(0, 2**32 - 1))
def test_every_point_is_in_one_half(num_rows: int, test_fraction: float, seed: int) -> None:
    for train, test in splits(small(num_rows), 3, test_fraction, seed):
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(num_rows))
        assert len(test) == np.ceil(num_rows * test_fraction)


def test_splits_are_the_same_each_time_and_differ_among_themselves() -> None:
    first, second, more = splits(small()), splits(small()), splits(small(), num_splits=7)
    assert len(first) == 5
    for a, b, c in zip(first, second, more, strict=False):
        np.testing.assert_array_equal(a.train, b.train)
        np.testing.assert_array_equal(a.test, b.test)
        np.testing.assert_array_equal(a.test, c.test)
    assert len({tuple(split.test) for split in (*more, *splits(small(), seed=1))}) == 12


def test_splits_hold_the_same_points_whatever_the_order_of_rows() -> None:
    data = small()
    shuffled = np.random.default_rng(1).permutation(33)
    other = Regression("small", data.X[shuffled], data.y[shuffled], ("a", "b"), "c")
    for a, b in zip(splits(data), splits(other), strict=True):
        np.testing.assert_array_equal(data.X[a.train], other.X[b.train])
        np.testing.assert_array_equal(data.y[a.test], other.y[b.test])


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="num_splits must be at least 1, got 0"):
        splits(small(), num_splits=0)
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        splits(small(), seed=-1)
    with pytest.raises(ValueError, match="test_fraction must be positive and finite, got 0"):
        splits(small(), test_fraction=0.0)
    with pytest.raises(ValueError, match="must leave points to learn from, got 0.99 of 33, which is 33; pass e.g. 0.1"):
        splits(small(), test_fraction=0.99)


@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.integers(-3, 3)), min_size=1, max_size=20), st.randoms())
def test_digest_and_order_do_not_see_the_order_of_rows(rows: list[tuple[float, int]], random: object) -> None:
    table = np.array(rows, dtype=np.float64)
    random.shuffle(rows)
    other = np.array(rows, dtype=np.float64)
    assert digest(table) == digest(other)
    np.testing.assert_allclose(table[order(table)], other[order(other)], rtol=1e-5)


def test_digest_sees_six_digits() -> None:
    table = np.array([[1.23456, -0.0], [0.0, 987654.0]])
    assert digest(table) == digest(np.array([[1.234561, 0.0], [-0.0, 987654.2]]))
    assert digest(table) != digest(np.array([[1.23457, 0.0], [0.0, 987654.0]]))
    assert digest(table) != digest(table[:, ::-1])


def test_names() -> None:
    assert datasets.UCI == ("concrete", "energy", "kin8nm", "naval", "power", "protein", "wine_red", "yacht")
    assert "boston" not in datasets.UCI
    with pytest.raises(ValueError, match=r"name must be one of \['concrete', .*'yacht', 'boston'\], got 'banana'"):
        datasets.load_regression("banana")
