"""A progress bar with the objective and the rate; silent where there is no terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Report(Protocol):
    """Called once a step with the objective, and the factor of the learning rates."""

    def __call__(self, objective: float, rate: float = 1.0) -> None: ...


def silent(objective: float, rate: float = 1.0) -> None:
    """Shows nothing."""


@contextmanager
def progress_bar(description: str, total: int, *, done: int = 0) -> Iterator[Report]:
    """Shows a bar on standard error while the block runs, if that is a terminal.

    Args:
        description: What is under way.
        total: How many steps there are.
        done: How many of the steps have been taken already.
    """
    if not sys.stderr.isatty():
        yield silent
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TextColumn("objective {task.fields[objective]:.4g}"),
        TextColumn("rate {task.fields[rate]:.0%}"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
    )
    with bar:
        task = bar.add_task(description, total=total, completed=done, objective=float("nan"), rate=1.0, speed="")

        def report(objective: float, rate: float = 1.0) -> None:
            speed = bar.tasks[task].speed
            bar.update(task, advance=1, objective=objective, rate=rate, speed=f"{speed:.0f}/s" if speed else "")

        yield report
