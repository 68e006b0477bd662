"""Files of JSON lines: one object a line, appended while an experiment runs, with fields that are checked when read."""

import json
from collections.abc import Iterator
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple


class Line(NamedTuple):
    """One object of a file, and where it stands, for errors.

    Attributes:
        where: The file's name and the number of the line.
        fields: The object.
    """

    where: str
    fields: dict[str, Any]

    def text(self, name: str) -> str:
        """The field `name`, a string that is not empty."""
        value = self._field(name)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{self.where}: {name!r} must be a name, got {value!r}; mend or remove the line")
        return value

    def integer(self, name: str) -> int:
        """The field `name`, a whole number from 0."""
        value = self._field(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(
                f"{self.where}: {name!r} must be a whole number from 0, got {value!r}; mend or remove the line"
            )
        return value

    def score(self, name: str) -> float:
        """The field `name`, a number; null, NaN and ±∞ are what a failed run leaves, and are read as ∞."""
        value = self._field(name)
        if value is None:
            return inf
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{self.where}: {name!r} must be a number, got {value!r}; mend or remove the line")
        return float(value) if isfinite(value) else inf

    def counts(self, name: str, length: int) -> tuple[float, ...]:
        """The field `name`, a list of `length` counts."""
        value = self._field(name)
        if (
            not isinstance(value, list)
            or len(value) != length
            or not all(isinstance(count, int | float) and isfinite(count) and count >= 0 for count in value)
        ):
            raise ValueError(
                f"{self.where}: {name!r} must be a list of {length} counts, got {value!r}; mend or remove the line"
            )
        return tuple(map(float, value))

    def inner(self, name: str) -> "Line":
        """The field `name`, itself an object."""
        value = self._field(name)
        if not isinstance(value, dict):
            raise ValueError(f"{self.where}: {name!r} must be an object, got {value!r}; mend or remove the line")
        return Line(f"{self.where}, {name!r}", value)

    def objects(self, name: str) -> "list[Line]":
        """The field `name`, a list of objects."""
        value = self._field(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise ValueError(
                f"{self.where}: {name!r} must be a list of objects, got {value!r}; mend or remove the line"
            )
        return [Line(f"{self.where}, {name!r} {i}", item) for i, item in enumerate(value)]

    def _field(self, name: str) -> Any:
        if name not in self.fields:
            raise ValueError(
                f"{self.where}: there must be a field {name!r}, got the fields {sorted(self.fields)}; "
                "mend or remove the line, or pass the file that it belongs to"
            )
        return self.fields[name]


def read_lines(path: Path) -> list[Line]:
    """All objects of a file; a last line that was cut off, because its run was, is left out."""
    if not path.is_file():
        raise FileNotFoundError(
            f"results must be a file of JSON lines, got {str(path)!r}, which is not there; run first"
        )
    lines = list(_parse(path))
    if not lines:
        raise ValueError(f"{path.name} must hold at least one complete JSON line, got none; run the experiment first")
    return lines


def _parse(path: Path) -> Iterator[Line]:
    # Bytes that a cut has left incomplete are replaced: the line is then no JSON, as it should be.
    texts = path.read_bytes().decode("utf-8", errors="replace").split("\n")
    numbered = [(number, text) for number, text in enumerate(texts, start=1) if text.strip()]
    for number, text in numbered:
        where = f"{path.name}, line {number}"
        try:
            fields = json.loads(text)
        except json.JSONDecodeError:
            if number == numbered[-1][0]:
                return
            raise ValueError(
                f"{where}: a line must be one JSON object, got {text[:60]!r}; remove the line and run its cell again"
            ) from None
        if not isinstance(fields, dict):
            raise ValueError(f"{where}: a line must be one JSON object, got {text[:60]!r}; remove the line")
        yield Line(where, fields)
