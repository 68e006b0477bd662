"""`actgp predict`."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from actgp.cli.models import Model, table_model
from actgp.cli.terminal import Counter, Json, messages, plainly
from actgp.tabular import predict_file
from actgp.tabular.reading import STDIN


def predict(
    model: Model,
    file: Annotated[Path, typer.Argument(help="CSV, Parquet or Feather; - for standard input.", metavar="FILE")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .csv, .parquet or .feather file; - for standard output.")
    ],
    fast: Annotated[
        bool, typer.Option("--fast", help="Ask the small network that was taught to say what the model says.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a table with further columns: predictions, intervals or probabilities, and how far they are to be trusted.

    Columns are found by their names. Files of any length are read and written some rows at a time.

    [bold]Examples[/bold]

    actgp predict prices.actgp new.csv -o out.csv

    actgp predict prices.actgp millions.parquet -o out.parquet --fast
    """
    if as_json and output == STDIN:
        raise typer.BadParameter("standard output can take the table or JSON, got both; write the table to a file")
    with plainly(OSError, ValueError, TypeError):
        done = predict_file(table_model(model), file, output, fast=fast, report=Counter())
    if as_json:
        sys.stdout.write(json.dumps({"output": str(output), **done._asdict()}) + "\n")
        return
    rate = done.rows / max(1e-9, done.seconds)
    messages.print(f"{done.rows:,} rows in {done.seconds:.1f} s, {rate:,.0f} a second; wrote {output}", soft_wrap=True)
    if done.unlike:
        messages.print(f"{done.unlike:,} rows are unlike the training rows: see the column unlike_training")
