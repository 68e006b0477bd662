"""What standardises a table."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler


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
