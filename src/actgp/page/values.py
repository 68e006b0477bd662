"""Values of a column: some that stand for all, and how a page writes them."""

from typing import Any, Literal

import numpy as np
import pandas as pd

from actgp.estimators.columns import Column, TextColumn

Scale = Literal["number", "date", "choice"]

MOST_CHOICES = 12
MIDDLE = (0.02, 0.98)  # quantiles between which numbers are shown


def scale_of(column: Column, values: "pd.Series[Any]") -> Scale:
    """How values stand on an axis."""
    if column.kind == "date":
        return "date"
    return "number" if column.kind == "number" and values.nunique() > 2 else "choice"


def typical(column: Column, values: "pd.Series[Any]", number: int) -> list[Any]:
    """Values from one end to the other; all of a few, and those that are frequent enough of text."""
    present = values.dropna()
    if isinstance(column, TextColumn):
        frequent = [word for word in present.value_counts().index if str(word) in column.categories]
        return frequent[:MOST_CHOICES]
    if present.nunique() <= MOST_CHOICES:
        return sorted(present.unique().tolist())
    if column.kind != "number":
        ordered = present.sort_values()
        return [ordered.iloc[i] for i in np.linspace(0, len(ordered) - 1, number).astype(int)]
    low, high = present.quantile(list(MIDDLE)).astype(float)
    if low == high:
        low, high = float(present.min()), float(present.max())
    grid = np.linspace(low, high, number)
    whole = bool((present == present.round()).all())
    return np.unique(grid.round()).tolist() if whole else grid.tolist()


def written(value: Any) -> Any:
    """Numbers as they are, dates in ISO's format, all else as text; None for missing ones."""
    if value is None or value is pd.NaT or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | float | np.integer | np.floating):
        return float(value)
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    return str(value)
