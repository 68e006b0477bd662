"""`actgp fit`."""

import json
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from actgp.cli.terminal import Json, console, messages, plainly, table_of, tell
from actgp.page import numbers, write_page
from actgp.page.rounding import plain
from actgp.tables import Effort
from actgp.tabular import Fitting, Settings, fit_frame, read_table
from actgp.tabular.reading import STDIN
from actgp.tabular.scores import Scores
from actgp.tabular.task import Task

PARTS = ("coverage", "accuracy", "ECE")  # scores that are shown in percent


def fit(
    file: Annotated[Path, typer.Argument(help="CSV, Parquet or Feather; - for standard input.", metavar="FILE")],
    target: Annotated[str, typer.Option("--target", "-t", help="The column that is to be predicted.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The model's file; by default FILE's name with .actgp, here.")
    ] = None,
    task: Annotated[Task | None, typer.Option(help="Found from the target's values by default.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given again.")] = None,
    effort: Annotated[Effort, typer.Option(help="How much time is spent.")] = "balanced",
    time_budget: Annotated[
        float | None, typer.Option(min=1.0, help="Seconds that it may take, the page included.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all randomness, the choice of test rows included.")] = 0,
    page: Annotated[bool, typer.Option(help="Whether to write a page beside the model.")] = True,
    as_json: Json = False,
) -> None:
    """Fit a model to a table in a file, and write it, and a page about it.

    A fifth of the rows is kept aside to judge by. Ctrl-C ends training with the best model so far.

    [bold]Examples[/bold]

    actgp fit prices.csv --target price

    actgp fit prices.parquet --target price --drop id --time-budget 60

    zcat sales.csv.gz | actgp fit - --target sold --task classification -o sales.actgp --json
    """
    began = time.perf_counter()
    stem = "table" if file == STDIN else file.name.removesuffix(".gz").rpartition(".")[0] or file.name
    output = Path(f"{stem}.actgp") if output is None else output
    with plainly(OSError, ValueError, TypeError), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if output.suffix in (".html", "") or not output.absolute().parent.is_dir():
            raise ValueError(f"--output must be a file in a folder that exists, such as prices.actgp, got {output}")
        tell(f"reading {'standard input' if file == STDIN else file}")
        reading = read_table(file)
        left = None if time_budget is None else max(1.0, time_budget - (time.perf_counter() - began))
        settings = Settings(target, task, drop or (), effort, left, seed, progress=True)
        fitting = fit_frame(reading, settings, tell)
        if page:
            tell("computing the numbers of the page")
            fitting = fitting._replace(model=replace(fitting.model, page=numbers(fitting)))
        fitting.model.save(output)
        written = [output]
        if page:
            written.append(output.with_suffix(".html"))
            write_page(fitting.model, written[1])
    warned = [str(each.message) for each in caught if _is_worth_saying(each)]
    seconds = time.perf_counter() - began
    if as_json:
        sys.stdout.write(json.dumps(plain(_results(fitting, written, warned, seconds)), ensure_ascii=False) + "\n")
        return
    _show(fitting, warned)
    for path in written:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
    console.print(f"[dim]{seconds:.0f} s; predict with: actgp predict {output} FILE -o OUT[/dim]", soft_wrap=True)


def _is_worth_saying(warning: warnings.WarningMessage) -> bool:
    """What a user can do something about."""
    return issubclass(warning.category, UserWarning)


def _show(fitting: Fitting, warned: list[str]) -> None:
    model = fitting.model
    rows = [
        (str(c.name), c.kind, f"{c.missing:,}", f"{len(c.outputs):,}", f"left out: {c.note}" if c.dropped else c.note)
        for c in model.estimator.columns_
    ]
    table = table_of("What the table was taken for", ("column", "kind", "missing", "numbers", ""), rows)
    table.columns[-1].justify = "left"
    console.print(table)
    for note in [*fitting.notes, *warned]:
        messages.print(f"note: {note}", markup=False, soft_wrap=True)
    console.print(f"{model.target}: {model.task}, since {fitting.target.why}", highlight=False, soft_wrap=True)
    names = list(fitting.scores[0].values)
    title = f"On {len(fitting.test):,} rows kept aside"
    console.print(table_of(title, ("model", *names), [_row(score) for score in fitting.scores], words=1))


def _row(score: Scores) -> tuple[str, ...]:
    shown = (f"{value:.1%}" if name in PARTS else f"{value:.4g}" for name, value in score.values.items())
    return (score.model, *shown)


def _results(fitting: Fitting, written: list[Path], warned: list[str], seconds: float) -> dict[str, Any]:
    return {
        "model": str(written[0]),
        "page": str(written[1]) if len(written) > 1 else None,
        "task": fitting.model.task,
        "rows": {"train": len(fitting.train), "test": len(fitting.test)},
        "scores": {score.model: score.values for score in fitting.scores},
        "stopped": fitting.model.estimator.report_.stopped,
        "notes": [*fitting.notes, *warned],
        "seconds": {**fitting.seconds, "all": seconds},
    }
