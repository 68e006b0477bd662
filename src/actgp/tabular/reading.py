"""Files with tables as pandas' frames: CSV in any dialect, Parquet, Feather; whole, or some rows at a time."""

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from actgp.persistence import savable
from actgp.tabular.dialect import GZIP, Dialect, dialect_of

ROWS = 32_768  # at a time
STDIN = Path("-")
PARQUET, FEATHER, OLD_FEATHER = b"PAR1", b"ARROW1", b"FEA1"
FORMATS = ("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%Y/%m/%d")
LATIN = "cp1252"
MISSING = ["?"]  # besides what pandas takes for missing: empty, NA, NaN, null, …


@savable
@dataclass(frozen=True)
class DateFormat:
    """How a column of text writes dates."""

    column: str
    format: str


class Reading(NamedTuple):
    """A table, read.

    Attributes:
        frame: The table.
        dates: Columns whose text was read as dates.
        notes: What is to be known about how it was read.
    """

    frame: pd.DataFrame
    dates: Sequence[DateFormat]
    notes: Sequence[str]


def read_table(path: Path) -> Reading:
    """The whole table; `-` is standard input."""
    with _on_disk(path) as file:
        kind = _kind(file)
        if kind == "text":
            dialect = dialect_of(file)
            frame, dialect = _whole_text(file, dialect)
            notes = [f"read as text with {dialect.in_words}"] * bool(dialect.in_words)
            notes += _doubles(dialect)
        else:
            frame, notes = _frame_of(pa.concat_tables([_renamed(part) for part in _parts(file, kind)])), []
    frame.columns = frame.columns.map(str)
    if len(frame) == 0:
        raise ValueError(f"a table must have rows below the names of its columns, got none in {path}; add rows")
    if (first := frame.columns[0]).startswith("Unnamed: ") and _are_row_numbers(frame[first]):
        frame = frame.drop(columns=first)
        notes.append("the first column has no name and numbers the rows: left out")
    frame, dates = _with_dates(frame)
    notes += [f"dates in column {each.column!r} are written as {each.format}" for each in dates]
    return Reading(frame, dates, notes)


def chunks(path: Path, words: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Some rows after the others, of a table whose columns are known already.

    Args:
        path: The file; `-` is standard input.
        words: Columns that are text, whatever they look like.
    """
    with _on_disk(path) as file:
        kind = _kind(file)
        for frame in _text_chunks(file, words) if kind == "text" else map(_frame_of, map(_renamed, _parts(file, kind))):
            frame.columns = frame.columns.map(str)
            yield frame


@contextmanager
def _on_disk(path: Path) -> Iterator[Path]:
    """A file; what comes from standard input is put into one."""
    if path != STDIN:
        if not path.is_file():
            what = "a directory" if path.is_dir() else "nothing"
            raise FileNotFoundError(f"FILE must be a file with a table, got {what} at {str(path)!r}; check the path")
        yield path
        return
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)


def _kind(path: Path) -> str:
    """What a file is, by how it begins."""
    with path.open("rb") as file:
        start = file.read(6)
    return "parquet" if start[:4] == PARQUET else "feather" if start == FEATHER else "text"


def _options(path: Path, dialect: Dialect) -> dict[str, Any]:
    with path.open("rb") as file:
        zipped = file.read(2) == GZIP
    return {
        "sep": dialect.separator,
        "decimal": dialect.decimal,
        "thousands": dialect.thousands,
        "encoding": dialect.encoding,
        "compression": "gzip" if zipped else None,
        "na_values": MISSING,
        "skipinitialspace": True,
    }


def _whole_text(path: Path, dialect: Dialect) -> tuple[pd.DataFrame, Dialect]:
    """A table in text, which turns out not to be UTF-8 at the first letter that is none."""
    try:
        return pd.read_csv(path, low_memory=False, **_options(path, dialect)), dialect
    except UnicodeDecodeError:
        dialect = dialect._replace(encoding=LATIN)
        return pd.read_csv(path, low_memory=False, **_options(path, dialect)), dialect


def _text_chunks(path: Path, words: Sequence[str]) -> Iterator[pd.DataFrame]:
    dialect = dialect_of(path)
    dtypes: Mapping[str, type] = dict.fromkeys(words, str)
    if dialect.encoding == "utf-8" and not _is_utf8(path):
        dialect = dialect._replace(encoding=LATIN)
    options = _options(path, dialect)
    with pd.read_csv(path, chunksize=ROWS, dtype=dtypes, **options) as parts:
        yield from parts


def _is_utf8(path: Path) -> bool:
    try:
        with pd.io.common.get_handle(path, "r", encoding="utf-8", compression="infer") as handles:
            while handles.handle.read(1 << 22):
                pass
    except UnicodeDecodeError:
        return False
    return True


def _parts(path: Path, kind: str) -> Iterator[pa.Table]:
    """Parquet and Feather, some rows at a time."""
    if kind == "parquet":
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS):
                yield pa.Table.from_batches([batch])
        return
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        for i in range(reader.num_record_batches):
            table = pa.Table.from_batches([reader.get_batch(i)])
            for start in range(0, table.num_rows, ROWS):
                yield table.slice(start, ROWS)


def _renamed(table: pa.Table) -> pa.Table:
    """Names that stand twice get a number, as pandas does it in text."""
    seen: Counter[str] = Counter()
    names = []
    for name in table.column_names:
        names.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return table.rename_columns(names)


def _frame_of(table: pa.Table) -> pd.DataFrame:
    frame = table.to_pandas()
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index(drop=frame.index.name is None)


def _doubles(dialect: Dialect) -> list[str]:
    counts = Counter(name.strip() for name in dialect.header)
    return [
        f"the name {name!r} stands {number} times: the others are {name + '.1'!r} and so on"
        for name, number in counts.items()
        if number > 1 and name
    ]


def _are_row_numbers(values: "pd.Series[Any]") -> bool:
    if not pd.api.types.is_integer_dtype(values.dtype):
        return False
    numbers = values.to_numpy()
    return bool((numbers - numbers[0] == np.arange(len(numbers))).all())


def _with_dates(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[DateFormat]]:
    """Text that is dates in one known format, and in one only."""
    found = []
    for column in frame.columns[[pd.api.types.is_string_dtype(dtype) for dtype in frame.dtypes]]:
        words = frame[column].dropna()
        if len(words) == 0 or not all(isinstance(word, str) and word[:1].isdigit() for word in words[:50]):
            continue
        fitting = [each for each in FORMATS if pd.to_datetime(words, format=each, errors="coerce").notna().all()]
        if len(fitting) == 1 or fitting[:2] == ["%d/%m/%Y", "%m/%d/%Y"]:
            found.append(DateFormat(str(column), fitting[0]))
    return as_dates(frame, found), found


def as_dates(frame: pd.DataFrame, dates: Sequence[DateFormat]) -> pd.DataFrame:
    """The same table, in which text is dates where it was in `fit`."""
    for each in dates:
        if each.column in frame.columns and not pd.api.types.is_datetime64_any_dtype(frame[each.column].dtype):
            try:
                frame = frame.assign(**{each.column: pd.to_datetime(frame[each.column], format=each.format)})
            except ValueError as error:
                raise ValueError(
                    f"column {each.column!r} must hold dates written as {each.format}, as in fit, got another "
                    f"({str(error).splitlines()[0]}); rewrite it"
                ) from None
    return frame
