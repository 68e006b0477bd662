"""Dates and durations are no numbers: numpy would take them for counts of whatever unit they happen to be held in."""

from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

DATES = (date, time, timedelta, np.datetime64, np.timedelta64)  # datetime is a date, and pandas' Timestamp a datetime
OF_PANDAS = "Period"  # which is none of these


def refuse_dates(values: ArrayLike | None, name: str) -> None:
    """Refuses a table or a column with dates or durations in it, as numpy's or pandas' type or as objects.

    Args:
        values: X or y, before it is converted to numbers.
        name: What it is called.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "mMO" or array.ndim not in (1, 2):
        return
    for j, column in enumerate(array.reshape(len(array), -1).T):
        if found := _kind_of_date(column):
            names = getattr(values, "columns", None)
            label = getattr(values, "name", None) if names is None else names[j]
            label = j if label is None else repr(label) if isinstance(label, str) else label
            wanted = "numbers" if name == "X" else "numbers or labels"
            raise TypeError(
                f"{name} must hold {wanted}, got {found} in column {label}; convert dates and durations to numbers, "
                "e.g. days since a date: (t - np.datetime64('2000-01-01')) / np.timedelta64(1, 'D')"
            )


def _kind_of_date(column: NDArray[Any]) -> str | None:
    if column.dtype.kind != "O":
        return str(column.dtype)
    kinds = (type(value) for value in column if isinstance(value, DATES) or type(value).__name__ == OF_PANDAS)
    return next((kind.__name__ for kind in kinds), None)
