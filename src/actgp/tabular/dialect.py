"""How a text file writes a table: encoding, separator, decimal comma; found from its beginning."""

import csv
import gzip
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

BEGINNING = 1 << 17  # bytes that are looked at
SEPARATORS = (",", ";", "\t", "|")
MOST_LINES = 200
COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+(e[+-]?\d+)?", re.IGNORECASE)
POINT = re.compile(r"[+-]?\d*\.\d+(e[+-]?\d+)?", re.IGNORECASE)
THOUSANDS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?")
ENCODINGS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # by the mark at the start
GZIP = b"\x1f\x8b"


class Dialect(NamedTuple):
    """How a text file writes a table.

    Attributes:
        encoding: Of its letters.
        separator: Between columns.
        decimal: Before the fraction of a number.
        thousands: Between groups of three digits, if anything is.
        header: Names of columns, as they stand there.
    """

    encoding: str
    separator: str
    decimal: str
    thousands: str | None
    header: Sequence[str]

    @property
    def in_words(self) -> str:
        """What is not usual about it."""
        names = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
        said = [f"columns separated by {names[self.separator]}"] if self.separator != "," else []
        said += ["decimal commas"] if self.decimal == "," else []
        said += [self.encoding] if self.encoding not in ("utf-8", "utf-8-sig") else []
        return ", ".join(said)


def dialect_of(path: Path) -> Dialect:
    """That of a file."""
    with path.open("rb") as file:
        zipped = file.read(2) == GZIP
    with gzip.open(path) if zipped else path.open("rb") as file:
        data = file.read(BEGINNING)
        cut_short = bool(file.read(1))
    encoding = _encoding(data)
    lines = data.decode(encoding, errors="ignore").splitlines()
    lines = [line for line in (lines[:-1] if cut_short and len(lines) > 1 else lines) if line.strip()][:MOST_LINES]
    if not lines:
        raise ValueError(f"a table must have a line with the names of its columns, got an empty file, {path}; fill it")
    separator = max(SEPARATORS, key=lambda mark: _columns(lines, mark))
    rows = list(csv.reader(lines, delimiter=separator))
    cells = [cell.strip() for row in rows[1:] for cell in row]
    comma = separator != "," and sum(map(_matches(COMMA), cells)) > sum(map(_matches(POINT), cells))
    grouped = comma and any(map(_matches(THOUSANDS), cells))
    return Dialect(encoding, separator, "," if comma else ".", "." if grouped else None, rows[0])


def _encoding(data: bytes) -> str:
    """UTF-8 if it can be, of which the last letter may be cut."""
    for mark, name in ENCODINGS.items():
        if data.startswith(mark):
            return name
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return "utf-8" if error.start > len(data) - 4 and len(data) == BEGINNING else "cp1252"
    return "utf-8"


def _columns(lines: Sequence[str], mark: str) -> int:
    """How many columns there are in the header, if a mark separates them and most rows have as many; 0 if not."""
    widths = [len(row) for row in csv.reader(lines, delimiter=mark)]
    alike = sum(width == widths[0] for width in widths)
    return widths[0] if widths[0] > 1 and alike > 0.8 * len(widths) else 0


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda cell: pattern.fullmatch(cell) is not None
