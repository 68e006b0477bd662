"""A progress bar with the objective and the rate; silent where there is no terminal."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Report(Protocol):
    """Called once a step with the objective, and the factor of the learning rates."""

    def __call__(self, objective: float, rate: float = 1.0) -> None: ...


@contextmanager
def progress_bar(description: str, total: int, *, done: int = 0) -> Iterator[Report]:
    """Shows a bar on standard error while the block runs, if that is a terminal.

    Args:
        description: What is under way.
        total: How many steps there are.
        done: How many of the steps have been taken already.
    """
    if not sys.stderr.isatty():
        yield lambda objective, rate=1.0: None
        return
    rich, console = (importlib.import_module(f"rich.{name}") for name in ("progress", "console"))  # only now
    bar = rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn("{task.completed}/{task.total}"),
        rich.TextColumn("objective {task.fields[objective]:.4g}"),
        rich.TextColumn("rate {task.fields[rate]:.0%}"),
        rich.TextColumn("{task.fields[speed]}"),
        rich.TimeRemainingColumn(),
        console=console.Console(file=sys.stderr),
        transient=True,
    )
    with bar:
        task = bar.add_task(description, total=total, completed=done, objective=float("nan"), rate=1.0, speed="")

        def report(objective: float, rate: float = 1.0) -> None:
            speed = bar.tasks[task].speed
            bar.update(task, advance=1, objective=objective, rate=rate, speed=f"{speed:.0f}/s" if speed else "")

        yield report
