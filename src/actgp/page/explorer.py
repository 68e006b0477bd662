"""The explorer's controls: one for each column, with what JavaScript needs to make numbers of its value."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from actgp.estimators.columns import PERIODS, Column, DateColumn, NumberColumn, TextColumn
from actgp.estimators.encoding import Encoding
from actgp.estimators.frames import Values, is_missing, read
from actgp.page.values import MIDDLE

BEYOND = 0.25  # of the range of most rows, that sliders go farther
STEPS = 200
FIRST = 8  # controls that are shown at once
UNHEARD_OF = "\ufffd"  # a word that no column has


def controls(columns: Encoding, frame: pd.DataFrame, names: Sequence[str]) -> dict[str, Any]:
    """Of all columns, in the order of the numbers that they become; `order` is that of relevance."""
    table = columns.select(read(frame))
    each = [_control(column, values) for column, values in zip(columns, table.columns, strict=True)]
    order = [columns.names.index(name) for name in names]
    return {"columns": each, "order": order, "first": FIRST, "nothing": columns.outputs == ["nothing"]}


def starts(columns: Encoding, frame: pd.DataFrame) -> list[list[Any]]:
    """Rows in the units of the controls: numbers, days since 1970, words; None where missing."""
    table = columns.select(read(frame))
    return [list(row) for row in zip(*(_values(values) for values in table.columns), strict=True)]


def _values(values: Values) -> list[Any]:
    if values.kind in ("date", "time"):
        days = values.array.astype("datetime64[us]").astype(np.int64) / 86_400_000_000
        return [None if np.isnat(value) else day for value, day in zip(values.array, days.tolist(), strict=True)]
    return [None if is_missing(value) else value for value in values.array.tolist()]


def _control(column: Column, values: Values) -> dict[str, Any]:
    name: dict[str, Any] = {"name": str(column.name)}
    if column.dropped is not None:
        return {**name, "type": "none"}
    if isinstance(column, TextColumn):
        return {**name, "type": "choice", **_choices(column)}
    present = np.array([value for value in _values(values) if value is not None], dtype=np.float64)
    assert isinstance(column, NumberColumn | DateColumn)
    shared = {**name, "indicates": column.indicates, "fill": column.fill, **_range(present)}
    if isinstance(column, DateColumn):
        periods = [PERIODS[part] for part in column.parts if part != "days"]
        return {**shared, "type": column.kind, "line": "days" in column.parts, "periods": periods}
    return {**shared, "type": "boolean" if column.kind == "boolean" else "number"}


def _range(present: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Of a slider, where it starts, and its steps."""
    low, middle, high = np.quantile(present, [MIDDLE[0], 0.5, MIDDLE[1]])
    if low == high:
        low, high = present.min(), present.max()
    low, high = low - BEYOND * (high - low), high + BEYOND * (high - low)
    if present.min() >= 0:
        low = max(low, 0.0)
    if low == high:
        low, high = low - 1, high + 1
    whole = bool((present == np.round(present)).all())
    if whole:
        return {"low": float(np.floor(low)), "high": float(np.ceil(high)), "step": 1, "start": float(np.round(middle))}
    return {"low": float(low), "high": float(high), "step": float(high - low) / STEPS, "start": float(middle)}


def _choices(column: TextColumn) -> dict[str, Any]:
    """Each value with the numbers that it becomes."""
    words: list[str | None] = list(column.categories)
    labels = list(column.categories)
    if column.others:
        words, labels = [*words, UNHEARD_OF], [*labels, "another"]
    if column.indicates:
        words, labels = [*words, None], [*labels, "missing"]
    vectors = column.encode(Values("text", np.array(words, dtype=object)))
    start = int(np.argmax(column.shares))
    return {
        "labels": labels,
        "vectors": vectors,
        "start": start,
        "others": column.others,
        "missing": column.indicates,
        "average": column.encode(Values("text", np.array([UNHEARD_OF], dtype=object)))[0],
    }
