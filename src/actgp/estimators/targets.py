"""What targets must be before a model is given them: numbers or labels, no dates, none of them missing."""

from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from actgp.estimators.frames import is_missing

DATES = (date, time, timedelta, np.datetime64, np.timedelta64)  # datetime is a date, and pandas' Timestamp a datetime
OF_PANDAS = "Period"  # which is none of these


def real_targets(values: NDArray[Any]) -> NDArray[np.float64]:
    """Targets of a regression, as float64."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must hold real numbers, got {values.dtype} ({error}); convert it, or use DGPClassifier for labels"
        ) from None


def check_targets(y: ArrayLike | None) -> None:
    """Refuses dates, durations and missing values, as numpy's or pandas' types or as objects.

    numpy would take dates for counts of whatever unit they happen to be held in.
    """
    array = np.asarray(y)
    if y is None or array.dtype.kind not in "mMO" or array.ndim not in (1, 2):
        return
    for j, column in enumerate(array.reshape(len(array), -1).T):
        names = getattr(y, "columns", None)
        label = getattr(y, "name", None) if names is None else names[j]
        label = j if label is None else repr(label) if isinstance(label, str) else label
        if found := _kind_of_date(column):
            raise TypeError(
                f"y must hold numbers or labels, got {found} in column {label}; convert dates and durations to "
                "numbers, e.g. days since a date: (t - np.datetime64('2000-01-01')) / np.timedelta64(1, 'D')"
            )
        missing = [i for i, value in enumerate(column) if is_missing(value)]
        if missing:
            raise ValueError(
                f"y must have no missing values, got {len(missing)} in column {label}, the first in row {missing[0]}: "
                "input y contains NaN or None; leave these rows out"
            )


def _kind_of_date(column: NDArray[Any]) -> str | None:
    if column.dtype.kind != "O":
        return str(column.dtype)
    kinds = (type(value) for value in column if isinstance(value, DATES) or type(value).__name__ == OF_PANDAS)
    return next((kind.__name__ for kind in kinds), None)
