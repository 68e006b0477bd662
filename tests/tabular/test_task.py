"""What a target is, and what cannot be one."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from actgp.tabular.task import Task, target_of


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([0.5, 1.5, 2.5], "regression"),
        ([0, 1, 1], "classification"),
        ([-1.0, 1.0, 1.0], "classification"),
        ([0, 1, 2], "classification"),
        ([1, 2, 5], "regression"),
        (list(range(7)), "regression"),
        ([True, False, True], "classification"),
        (["a", "b", None], "classification"),
    ],
)
def test_tasks_are_found_from_values(values: list[Any], task: Task) -> None:
    found = target_of(pd.DataFrame({"y": 2 * values}), "y", None)
    assert found.task == task
    assert found.rows.tolist() == [value is not None for value in 2 * values]
    assert len(found.values) == sum(found.rows)


def test_what_is_asked_for_counts() -> None:
    frame = pd.DataFrame({"y": [0.0, 1.0, np.nan, 1.0, np.inf]})
    regression = target_of(frame, "y", "regression")
    assert regression.values.tolist() == [0.0, 1.0, 1.0]
    assert regression.rows.tolist() == [True, True, False, True, False]
    labels = target_of(pd.DataFrame({"y": [3, 4, 3]}), "y", "classification")
    assert labels.values.tolist() == ["3", "4", "3"]


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        ([None, None], None, "the target 'y' must have values, got none in 2 rows; choose another column"),
        (["a", "b"], "regression", "must hold numbers for a regression, got 'a'; convert the column, or pass --task"),
        (["a", "a"], None, "labels in 'y' must be of 2 to 2 kinds in 2 rows, got 1; choose another column"),
        (list(range(101)), "classification", "of 2 to 50 kinds in 101 rows, got 101; pass --task regression"),
        (pd.date_range("2020", periods=3), None, "must hold numbers or labels, got dates such as 2020-01-01"),
    ],
)
def test_targets_that_are_refused(values: Any, task: Task | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        target_of(pd.DataFrame({"y": values}), "y", task)


def test_a_target_that_is_not_there_is_looked_for() -> None:
    frame = pd.DataFrame({f"column {i}": [0.5] for i in range(20)} | {"price": [1.0]})
    with pytest.raises(ValueError, match="got 'prise', of 'column 0', .* and 9 more; did you mean 'price'?"):
        target_of(frame, "prise", None)
    with pytest.raises(ValueError, match="got 'xyz', .*; choose one of these"):
        target_of(frame, "xyz", None)
