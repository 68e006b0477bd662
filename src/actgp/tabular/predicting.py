"""What a model says of a file, some rows at a time: memory does not grow with the file."""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from actgp.tabular.model import TableModel
from actgp.tabular.reading import STDIN, chunks

FORMATS = (".csv", ".parquet", ".feather", ".arrow")

Write = Callable[[pa.Table], None]


class Predicted(NamedTuple):
    """What was written.

    Attributes:
        rows: How many.
        unlike: How many of them are unlike the training data.
        seconds: How long it took.
    """

    rows: int
    unlike: int
    seconds: float


def predict_file(
    model: TableModel, source: Path, output: Path, *, fast: bool = False, report: Callable[[int], None] = lambda _: None
) -> Predicted:
    """Writes the table of `source` with further columns, which say what is predicted, to `output`.

    Args:
        model: A model.
        source: A file with a table; `-` is standard input.
        output: A file to write, .csv, .parquet, .feather or .arrow; `-` is standard output, as CSV.
        fast: Whether the student is asked.
        report: Told how many rows are done.
    """
    if output != STDIN and output.suffix not in FORMATS:
        raise ValueError(f"OUTPUT must end in one of {', '.join(FORMATS)}, got {output.name!r}; rename it")
    if output != STDIN and source.exists() and output.exists() and source.samefile(output):
        raise ValueError(f"OUTPUT must be another file than the one that is read, got {str(output)!r}; rename it")
    began, rows, unlike = time.perf_counter(), 0, 0
    with ExitStack() as stack:
        write = _as_text(stack, output) if output.suffix in (".csv", "") else _as_binary(stack, output)
        for frame in chunks(source, model.words):
            said = model.predict(frame, fast=fast)
            both = pd.concat([frame.drop(columns=frame.columns.intersection(said.columns)), said], axis=1)
            write(pa.Table.from_pandas(both, preserve_index=False))
            rows += len(frame)
            unlike += int(said["unlike_training"].sum())
            report(rows)
    return Predicted(rows, unlike, time.perf_counter() - began)


def _as_text(stack: ExitStack, output: Path) -> Write:
    """The header once, then rows."""
    file = sys.stdout.buffer if output == STDIN else stack.enter_context(output.open("wb"))
    header = [True]

    def write(table: pa.Table) -> None:
        csv.write_csv(table, file, csv.WriteOptions(include_header=header[0], quoting_style="needed"))
        header[0] = False

    return write


def _as_binary(stack: ExitStack, output: Path) -> Write:
    """Parquet or Feather, with the types of the first rows."""
    opened: list[pq.ParquetWriter | pa.ipc.RecordBatchFileWriter] = []
    schemas: list[pa.Schema] = []

    def write(table: pa.Table) -> None:
        if not opened:
            parquet, schema = output.suffix == ".parquet", table.schema
            schemas.append(schema)
            file = pq.ParquetWriter(output, schema) if parquet else pa.ipc.new_file(str(output), schema)
            opened.append(stack.enter_context(file))
        try:
            opened[0].write_table(table.cast(schemas[0]))
        except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
            raise ValueError(
                f"columns must have the same types in all rows to be written as {output.suffix}, got others further "
                f"down ({error}); write .csv, or read from Parquet"
            ) from None

    return write
