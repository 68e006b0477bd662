"""What is to be predicted: a number or a label, found from the column itself."""

from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from actgp.estimators.frames import as_words

Task = Literal["regression", "classification"]

MOST_LABELS = 5  # of whole numbers that are taken for labels
MOST_CLASSES, FEWEST_EACH = 100, 2  # rows of a class, on average


class Target(NamedTuple):
    """A column to be predicted.

    Attributes:
        task: What kind.
        why: Why it is that.
        values: Its values, where there are any: numbers, or labels as text.
        rows: Where these are, [N].
    """

    task: Task
    why: str
    values: np.ndarray[Any, Any]
    rows: np.ndarray[Any, Any]


def target_of(frame: pd.DataFrame, name: str, task: Task | None) -> Target:
    """A column of a table as what is to be predicted.

    Args:
        frame: The table.
        name: The column.
        task: What it is; found from its values if None.
    """
    if name not in frame.columns:
        close = get_close_matches(name, list(frame.columns), n=1)
        remedy = f"did you mean {close[0]!r}?" if close else "choose one of these"
        raise ValueError(f"--target must be a column of the table, got {name!r}, of {_some(frame)}; {remedy}")
    column = frame[name]
    rows = column.notna().to_numpy(copy=True)
    present = column[rows]
    if len(present) == 0:
        raise ValueError(f"the target {name!r} must have values, got none in {len(column)} rows; choose another column")
    numeric = pd.api.types.is_numeric_dtype(present.dtype) and not pd.api.types.is_bool_dtype(present.dtype)
    found, why = _task_of(present, numeric) if task is None else (task, "as you said")
    if found == "regression":
        if not numeric:
            raise ValueError(
                f"the target {name!r} must hold numbers for a regression, got {str(present.iloc[0])!r:.40}; convert "
                "the column, or pass --task classification"
            )
        values = present.to_numpy(dtype=np.float64)
        rows[rows] = np.isfinite(values)
        return Target(found, why, values[np.isfinite(values)], rows)
    if pd.api.types.is_datetime64_any_dtype(present.dtype):
        raise ValueError(
            f"the target {name!r} must hold numbers or labels, got dates such as {present.iloc[0]}; make numbers of "
            "them, e.g. days since a date"
        )
    labels = as_words(present.tolist())
    count = len(set(labels.tolist()))
    most = max(2, min(MOST_CLASSES, len(labels) // FEWEST_EACH))
    if not 2 <= count <= most:
        remedy = "choose another column" if count < 2 or not numeric else "pass --task regression"
        kinds = f"2 to {most} kinds in {len(labels)} rows"
        raise ValueError(f"labels in {name!r} must be of {kinds}, got {count}; {remedy}")
    return Target(found, why, labels, rows)


def _task_of(present: "pd.Series[Any]", numeric: bool) -> tuple[Task, str]:
    if not numeric:
        return "classification", "its values are no numbers"
    values = np.unique(present.to_numpy())
    if len(values) == 2:
        return "classification", f"it has two values, {values[0]:g} and {values[1]:g}"
    steps = np.arange(len(values))
    if len(values) <= MOST_LABELS and values[0] in (0, 1) and (values == values[0] + steps).all() and len(values) > 1:
        return "classification", f"its values are whole numbers from {values[0]:g} to {values[-1]:g}"
    return "regression", f"it has {len(values)} different numbers"


def _some(frame: pd.DataFrame) -> str:
    names = [repr(name) for name in frame.columns]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
