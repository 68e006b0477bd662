"""A progress bar with the objective and the rate; where there is no terminal, a line now and then."""

import importlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

EVERY = 10.0  # seconds between lines


class Report(Protocol):
    """Called once a step with the objective, and the factor of the learning rates."""

    def __call__(self, objective: float, rate: float = 1.0) -> None: ...


@contextmanager
def progress_bar(description: str, total: int, *, done: int = 0) -> Iterator[Report]:
    """Shows a bar on standard error while the block runs; plain lines, of what takes long, if that is no terminal.

    Args:
        description: What is under way.
        total: How many steps there are.
        done: How many of the steps have been taken already.
    """
    if not sys.stderr.isatty():
        yield _Lines(description, total, done)
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


class _Lines:
    """A line with the steps, the objective and the time left, now and then."""

    def __init__(self, description: str, total: int, done: int) -> None:
        self._description, self._total, self._done, self._first = description, total, done, done
        self._began = self._said = time.perf_counter()

    def __call__(self, objective: float, rate: float = 1.0) -> None:
        self._done += 1
        now = time.perf_counter()
        if now - self._said < EVERY:
            return
        self._said = now
        left = (now - self._began) / (self._done - self._first) * (self._total - self._done)
        text = f"{self._description} {self._done}/{self._total}, objective {objective:.4g}, {left:.0f} s left at most"
        sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
