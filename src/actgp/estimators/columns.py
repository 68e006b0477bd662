"""What was understood of the columns of a table, and how each becomes numbers.

Everything is learnt on the rows of `fit`:

- Numbers, booleans and durations stay as they are. Missing values become the median, and where there are enough of them
  there is a further column, which says where they are.
- Text becomes a column of zeros and ones for each value that is frequent enough, one for all others together, and one
  for missing values; of two such columns one suffices. Where there is no column for a value, such as one that is not
  seen before `predict`, the row gets the average of all rows: nothing is known about it. Numbers are taken for text
  if all categories are whole numbers.
- Dates become days since 1970, and sine and cosine of the phase in the year, the week and the day, where these differ.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from actgp.estimators.frames import Kind, Values, as_words, is_missing
from actgp.persistence import savable

Matrix = NDArray[np.float64]
Part = Literal["days", "year", "week", "day"]

ENOUGH, ENOUGH_OF_FEW, SMALLEST_SHARE = 10, 50, 6e-4  # rows; one in so many on small tables; on large ones
MOST_CATEGORIES = 30
PERIODS: dict[Part, float] = {"year": 365.2425, "week": 7.0, "day": 1.0}  # days
MICROSECONDS = 86_400_000_000  # of a day
REMEDIES: dict[str, str] = {
    "number": "pd.to_numeric(…, errors='coerce')",
    "boolean": ".astype(float)",
    "duration": "pd.to_timedelta",
    "text": ".astype(str)",
    "date": "pd.to_datetime",
    "time": "pd.to_datetime(…).dt.time",
}


def enough(num_rows: int) -> int:
    """How many rows a column of zeros and ones must have of either, to be made."""
    return int(max(min(ENOUGH, max(2, num_rows // ENOUGH_OF_FEW)), np.ceil(SMALLEST_SHARE * num_rows)))


@dataclass(frozen=True)
class Column(ABC):
    """A column.

    Attributes:
        name: Its name, or its position if it has none.
        kind: What its values are: "number", "boolean", "duration", "text", "date", "time" or "nothing".
        missing: In how many rows of `fit` there was no value.
        dropped: Why it is not used; None if it is.
    """

    name: str | int
    kind: Kind
    missing: int
    dropped: str | None

    @property
    @abstractmethod
    def outputs(self) -> list[str]:
        """What the numbers that it becomes are called."""

    @property
    @abstractmethod
    def note(self) -> str:
        """How it is used, in a few words."""

    @property
    @abstractmethod
    def alike(self) -> tuple[Kind, ...]:
        """Kinds of values that are taken for its own."""

    @abstractmethod
    def numbers(self, values: Values) -> Matrix:
        """The numbers that values of its own kind become, [N, outputs]."""

    def encode(self, values: Values) -> Matrix:
        """The numbers that values become, [N, outputs]; refuses those of another kind."""
        if self.dropped is not None:
            return np.empty((len(values.array), 0))
        if values.kind not in (self.kind, "nothing", *self.alike):
            value = next(value for value in values.array if not is_missing(value))
            raise ValueError(
                f"column {self.name!r} must hold what it held in fit, {self.kind}, got {values.kind}, such as "
                f"{str(value)!r:.40}; convert it, e.g. with {REMEDIES[self.kind]}, or fit again"
            )
        return self.numbers(values)


@savable
@dataclass(frozen=True)
class NumberColumn(Column):
    """Numbers, booleans or durations.

    Attributes:
        fill: What stands for missing values: the median.
        indicates: Whether a further column says where values are missing.
        constant: Whether all values are the same.
    """

    fill: float
    indicates: bool
    constant: bool

    @classmethod
    def learn(cls, values: Values, name: str | int) -> "NumberColumn":
        """From the rows of `fit`."""
        N, present = len(values.array), values.array[~np.isnan(values.array)]
        if len(present) == 0:
            return cls(name, "nothing", N, "all values are missing", 0.0, False, True)
        missing, fill = N - len(present), float(np.median(present))
        constant = bool((present == present[0]).all())
        return cls(name, values.kind, missing, None, fill, enough(N) <= missing <= N - enough(N), constant)

    @property
    def outputs(self) -> list[str]:
        if self.dropped is not None:
            return []
        return [str(self.name), *[f"{self.name} is missing"] * self.indicates]

    @property
    def note(self) -> str:
        filled = f"missing values are {self.fill:.4g}" if self.missing else ""
        return self.dropped or ("the same in all rows" if self.constant else filled)

    @property
    def alike(self) -> tuple[Kind, ...]:
        return () if self.kind == "duration" else ("number", "boolean")

    def numbers(self, values: Values) -> Matrix:
        gaps = np.isnan(values.array)
        filled = np.where(gaps, self.fill, values.array) if gaps.any() else values.array
        return np.column_stack([filled, *[gaps] * self.indicates])


@savable
@dataclass(frozen=True)
class TextColumn(Column):
    """Text: categories.

    Attributes:
        categories: The values that are frequent enough.
        others: Whether there is a column for all others together.
        indicates: Whether there is one for missing values.
        shares: Of each of these among the rows.
    """

    categories: Sequence[str]
    others: bool
    indicates: bool
    shares: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.shares) != len(self.levels) or len(set(self.categories)) < len(self.categories):
            raise ValueError(f"column {self.name!r} must have different categories, and a share for each; fit again")

    @classmethod
    def learn(cls, values: Values, name: str | int) -> "TextColumn":
        """From the rows of `fit`."""
        counts, N = Counter(values.array.tolist()), len(values.array)
        missing = counts.pop(None, 0)
        order = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_CATEGORIES]
        categories = sorted(word for word in order if counts[word] >= enough(N))
        rest = N - missing - sum(counts[word] for word in categories)
        others, indicates = rest >= enough(N), missing >= enough(N)
        numbers = [*(counts[word] for word in categories), *[rest] * others, *[missing] * indicates]
        dropped = None if len(numbers) > 1 else _why_dropped(counts, categories)
        return cls(name, "text", missing, dropped, categories, others, indicates, [n / N for n in numbers])

    @property
    def levels(self) -> list[str]:
        """Categories, and what stands for others and for missing values."""
        return [*self.categories, *["another"] * self.others, *["missing"] * self.indicates]

    @property
    def outputs(self) -> list[str]:
        if self.dropped is not None:
            return []
        words = [f"{self.name} is {level}" for level in self.levels]
        return words if len(words) > 2 else words[1:]

    @property
    def note(self) -> str:
        return self.dropped or ", ".join(self.levels[:8]) + (", …" if len(self.levels) > 8 else "")

    @property
    def alike(self) -> tuple[Kind, ...]:
        return ("number",) if all(word.isdecimal() for word in self.categories) else ()

    def numbers(self, values: Values) -> Matrix:
        K = len(self.levels)
        rows = np.vstack([np.eye(K), self.shares])  # where there is no column: the average row
        places: dict[str | None, int] = {word: i for i, word in enumerate(self.categories)}
        places[None] = K - 1 if self.indicates else K
        elsewhere = len(self.categories) if self.others else K
        words = values.array if values.kind == "text" else as_words(values.array)
        encoded = rows[[places.get(word, elsewhere) for word in words.tolist()]]  # [N, K]
        return encoded if K > 2 else encoded[:, 1:]


@savable
@dataclass(frozen=True)
class DateColumn(Column):
    """Dates, or times of day.

    Attributes:
        parts: What of a date is used.
        aware: Whether they have a time zone.
        fill: What stands for missing ones: the median, in days since 1970.
        indicates: Whether a further column says where values are missing.
    """

    parts: Sequence[Part]
    aware: bool
    fill: float
    indicates: bool

    @classmethod
    def learn(cls, values: Values, name: str | int) -> "DateColumn":
        """From the rows of `fit`."""
        days = _days(values)
        N, present = len(days), days[~np.isnan(days)]
        missing, span = N - len(present), float(np.ptp(present))
        parts: list[Part] = ["days"] if span > 0 and values.kind == "date" else []
        longest: tuple[tuple[Part, float], ...] = (("year", 180.0), ("week", 7.0))
        parts += [part for part, shortest in longest if span >= shortest]
        if np.ptp(present % 1) > 0:
            parts.append("day")
        dropped = None if parts else "the same in all rows"
        indicates = enough(N) <= missing <= N - enough(N)
        return cls(name, values.kind, missing, dropped, parts, values.aware, float(np.median(present)), indicates)

    @property
    def outputs(self) -> list[str]:
        if self.dropped is not None:
            return []
        waves = [
            f"{wave} of {self.name} in the {part}" for part in self.parts[self._line :] for wave in ("sine", "cosine")
        ]
        return [*[str(self.name)] * self._line, *waves, *[f"{self.name} is missing"] * self.indicates]

    @property
    def note(self) -> str:
        return self.dropped or ", ".join(self.parts) + (", in UTC" if self.aware else "")

    @property
    def alike(self) -> tuple[Kind, ...]:
        return ()

    def numbers(self, values: Values) -> Matrix:
        if values.kind != "nothing" and values.aware is not self.aware:
            had, remedy = ("one", "tz_localize('UTC')") if self.aware else ("none", "tz_localize(None)")
            raise ValueError(
                f"dates in column {self.name!r} must have a time zone or not, as in fit, which had {had}, got "
                f"{'one' if values.aware else 'none'}; call .dt.{remedy}"
            )
        days = _days(values)
        gaps = np.isnan(days)
        days = np.where(gaps, self.fill, days)
        phases = [2 * np.pi * days / PERIODS[part] for part in self.parts[self._line :]]
        waves = [wave(phase) for phase in phases for wave in (np.sin, np.cos)]
        return np.column_stack([*[days] * self._line, *waves, *[gaps] * self.indicates])

    @property
    def _line(self) -> bool:
        """Whether the first part is the date itself."""
        return "days" in self.parts


def learn(values: Values, name: str | int) -> Column:
    """What is understood of a column."""
    if values.kind == "text":
        return TextColumn.learn(values, name)
    return (DateColumn if values.kind in ("date", "time") else NumberColumn).learn(values, name)


def _days(values: Values) -> Matrix:
    """Days since 1970; NaN where missing."""
    if values.kind == "nothing":
        return values.array
    counts = values.array.astype("datetime64[us]").astype(np.int64) / MICROSECONDS
    return np.where(np.isnat(values.array), np.nan, counts)


def _why_dropped(counts: "Counter[Any]", categories: Sequence[str]) -> str:
    if categories and len(counts) == 1:
        return "the same in all rows"
    some = [word for word in list(counts)[:100] if word is not None]
    if some and sum(map(_is_number, some)) > 0.9 * len(some):
        return f"text that differs in nearly every row; it looks like numbers: convert it with {REMEDIES['number']}"
    return "text that differs in nearly every row"


def _is_number(word: str) -> bool:
    try:
        float(word.replace(",", "."))
    except ValueError:
        return False
    return True
