"""Tables of every make, read into columns: arrays, lists, sparse matrices; pandas, polars and pyarrow tables.

A column is read by what its values are, not by how they are held: objects that are all numbers are numbers.

    number, boolean, duration    float64, NaN where missing; durations in days
    text                         strings, None where missing
    date, time                   datetime64 in microseconds, NaT where missing; dates with a time zone in UTC
    nothing                      all values are missing
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

Kind = Literal["number", "boolean", "duration", "text", "date", "time", "nothing"]

LARGEST_DENSE = 2**29  # numbers in a sparse matrix, written out: 4 GB
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")
DAY = np.timedelta64(1, "D")
KINDS: tuple[tuple[Kind, tuple[type, ...]], ...] = (
    ("boolean", (bool, np.bool_)),
    ("number", (Real, Decimal, bool, np.bool_)),
    ("text", (str,)),
    ("date", (date, np.datetime64)),  # datetime is a date, and pandas' Timestamp a datetime
    ("duration", (timedelta, np.timedelta64)),
    ("time", (time,)),
    ("text", (str, Real, bool, np.bool_)),
)


class Values(NamedTuple):
    """A column.

    Attributes:
        kind: What its values are.
        array: The values, [N].
        aware: Whether dates had a time zone.
    """

    kind: Kind
    array: NDArray[Any]
    aware: bool = False


class Table(NamedTuple):
    """A table, read.

    Attributes:
        columns: Its columns.
        labels: What errors call them: names, or positions.
        names: Their names, if all are strings.
    """

    columns: Sequence[Values]
    labels: Sequence[str | int]
    names: Sequence[str] | None

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.columns[0].array)


def read(X: Any, *, fewest_rows: int = 1) -> Table:
    """A table of any make, of finite numbers, text, dates and missing values."""
    table = _read_frame(X, fewest_rows) if nw.dependencies.is_into_dataframe(X) else _read_array(X, fewest_rows)
    columns = [_checked(values, label) for values, label in zip(table.columns, table.labels, strict=True)]
    return table._replace(columns=columns)


def _checked(values: Values, label: str | int) -> Values:
    """A column without infinite numbers; of the kind nothing, if there is nothing in it."""
    array = values.array
    if is_missing(array[0]) and all(map(is_missing, array)):
        return Values("nothing", np.full(len(array), np.nan))
    if values.kind in ("number", "duration") and np.isinf(array).any():
        raise ValueError(
            f"Input X contains infinity in column {label!r}, first in row {int(np.isinf(array).argmax())}; "
            "replace it by NaN, which counts as missing, or by a number"
        )
    return values


def _read_frame(X: Any, fewest_rows: int) -> Table:
    labels = list(getattr(X, "column_names", X.columns))  # pyarrow calls them so
    if twice := sorted({str(label) for label in labels if labels.count(label) > 1}):
        raise ValueError(f"X must have columns of different names, got {twice} more than once; rename or drop some")
    for got, fewest, what in ((X.shape[0], fewest_rows, "sample"), (len(labels), 1, "feature")):
        if got < fewest:
            raise ValueError(
                f"Found array with {got} {what}(s) (shape={tuple(X.shape)}) while a minimum of {fewest} is required."
            )
    frame = nw.from_native(X, eager_only=True)
    columns = [_of_series(frame[:, j], label) for j, label in enumerate(labels)]
    return Table(columns, labels, labels if all(isinstance(label, str) for label in labels) else None)


def _read_array(X: ArrayLike, fewest_rows: int) -> Table:
    if not (issparse(X) or isinstance(X, np.ndarray)) and np.asarray(X).dtype.kind == "U":
        X = np.asarray(X, dtype=object)  # numpy makes text of numbers that stand beside text
    array = check_array(
        X, accept_sparse=True, dtype=None, ensure_all_finite=False, ensure_min_samples=fewest_rows, input_name="X"
    )
    if issparse(array):
        array = _dense(array)
    if array.dtype.kind in "biuf":
        kind: Kind = "boolean" if array.dtype.kind == "b" else "number"
        array = array.astype(np.float64)
        columns = [Values(kind, array[:, j]) for j in range(array.shape[1])]
    else:
        columns = [_of_array(array[:, j], j) for j in range(array.shape[1])]
    return Table(columns, range(len(columns)), None)


def _dense(X: Any) -> NDArray[Any]:
    """A sparse matrix with its zeros."""
    rows, columns = X.shape
    if rows * columns > LARGEST_DENSE:
        raise ValueError(
            f"a sparse X must have at most {LARGEST_DENSE} entries, zeros included, got shape {X.shape}; reduce it, "
            "e.g. with sklearn.decomposition.TruncatedSVD"
        )
    return np.asarray(X.toarray())


def _of_series(series: "nw.Series[Any]", label: str | int) -> Values:
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        values = np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
        return Values("number" if dtype.is_numeric() else "boolean", values)
    if dtype in (nw.Categorical, nw.Enum):
        return Values("text", as_words(series.to_list()))
    found = _of_array(series.to_numpy(), label)
    return found if getattr(dtype, "time_zone", None) is None else found._replace(aware=True)


def _of_array(values: NDArray[Any], label: str | int) -> Values:
    """A column of an array of any dtype."""
    kind = values.dtype.kind
    if kind in "biuf":
        return Values("boolean" if kind == "b" else "number", values.astype(np.float64))
    if kind == "M":
        return Values("date", values.astype("datetime64[us]"))
    if kind == "m":
        return Values("duration", values.astype("timedelta64[us]") / DAY)
    return _of_objects(values.tolist() if kind in "OU" else list(values), label)


def _of_objects(values: list[Any], label: str | int) -> Values:
    """A column of Python's objects."""
    values = [None if is_missing(value) else value for value in values]
    values = [value.to_timestamp() if type(value).__name__ == "Period" else value for value in values]
    kind = _kind_of({type(value) for value in values if value is not None}, label)
    if kind in ("number", "boolean"):
        return Values(kind, np.array([np.nan if value is None else float(value) for value in values]))
    if kind == "duration":
        return Values(kind, np.array(values, dtype="timedelta64[us]") / DAY)
    if kind in ("date", "time"):
        moments = np.array([_moment(value) for value in values], dtype="datetime64[us]")
        return Values(kind, moments, any(getattr(value, "tzinfo", None) is not None for value in values))
    return _of_words(as_words(values))


def _kind_of(types: set[type], label: str | int) -> Kind:
    """The first kind whose values may have all these types."""
    for kind, allowed in KINDS:
        if all(issubclass(found, allowed) for found in types):
            return kind
    names = ", ".join(sorted(found.__name__ for found in types))
    raise TypeError(
        f"X must hold numbers, text or dates: an argument must be a string or a number, got {names} in column "
        f"{label!r}; convert the column, or leave it out"
    )


def _of_words(words: NDArray[Any]) -> Values:
    """Text; dates, if all of it are."""
    if all(word is None or ISO_DATE.fullmatch(word) for word in words):
        with suppress(ValueError):  # such as the 30th of February
            return Values("date", np.array(words, dtype="datetime64[us]"))
    return Values("text", words)


def _moment(value: Any) -> Any:
    """A date, in UTC if it has a time zone, or a time of day, on the first of all days."""
    if isinstance(value, time):
        return datetime.combine(date(1970, 1, 1), value)
    return value if getattr(value, "tzinfo", None) is None else value.astimezone(UTC).replace(tzinfo=None)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return value is None or nan or type(value).__name__ in ("NAType", "NaTType")


def as_words(values: Iterable[Any]) -> NDArray[Any]:
    """Text, and other values by their text: 3.0, as whole numbers are held where some are missing, as 3."""
    words = [
        value if type(value) is str or value is None else None if is_missing(value) else _word(value)
        for value in values
    ]
    return np.array(words, dtype=object)


def _word(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
