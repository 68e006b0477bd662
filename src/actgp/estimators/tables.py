"""What a table must be before a model is given it: numbers, no dates, and columns that can be standardised."""

from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import StandardScaler

DATES = (date, time, timedelta, np.datetime64, np.timedelta64)  # datetime is a date, and pandas' Timestamp a datetime
OF_PANDAS = "Period"  # which is none of these


def fitted_scaler(values: NDArray[Any], name: str) -> StandardScaler:
    """A scaler of columns [N, D], whose means and variances can be held in float64."""
    with np.errstate(over="ignore", invalid="ignore"):  # said below
        scaler = StandardScaler().fit(values)
    bad = ~(np.isfinite(scaler.mean_) & np.isfinite(scaler.var_))
    if bad.any():
        column = int(bad.argmax())
        raise ValueError(
            f"{name} must have columns whose variance float64 can hold, got values up to "
            f"{np.abs(values[:, column]).max():.3g} in column {column}; divide {name} by its size"
        )
    return scaler


def real_targets(values: NDArray[Any]) -> NDArray[np.float64]:
    """Targets of a regression, as float64."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must hold real numbers, got {values.dtype} ({error}); convert it, or use DGPClassifier for labels"
        ) from None


def refuse_dates(values: ArrayLike | None, name: str) -> None:
    """Refuses a table or a column with dates or durations in it, as numpy's or pandas' type or as objects.

    numpy would take them for counts of whatever unit they happen to be held in.

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
