"""Columns of numbers, standardised."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

SMALLEST_SPREAD = 0.2  # that columns of zeros and ones are divided by, as if 4 % were ones


def fitted_scaler(
    values: NDArray[Any], name: str, labels: Sequence[str | int], flags: Sequence[bool] = ()
) -> StandardScaler:
    """A scaler of columns [N, D], whose means and variances can be held in float64.

    Args:
        values: The columns.
        name: What they are together.
        labels: What they are called.
        flags: Which of them are zeros and ones. They are stretched less if ones are rare: what only few rows have would
            otherwise count for more than all else.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # said below
        scaler = StandardScaler().fit(values)
    bad = ~(np.isfinite(scaler.mean_) & np.isfinite(scaler.var_))
    if bad.any():
        column = int(bad.argmax())
        raise ValueError(
            f"{name} must have columns whose variance float64 can hold, got values up to "
            f"{np.abs(values[:, column]).max():.3g} in column {labels[column]}; divide {name} by its size"
        )
    if any(flags):
        scaler.scale_ = np.where(flags, np.maximum(scaler.scale_, SMALLEST_SPREAD), scaler.scale_)
    return scaler
