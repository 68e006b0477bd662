"""What commands share: where they write, and how errors are shown."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

EVERY = 10.0  # seconds between lines of progress where there is no terminal

console = Console()
messages = Console(stderr=True, highlight=False)  # what is under way: standard output is for results

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write to; it is made if need be.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else, to standard output.")]


@contextmanager
def plainly(*kinds: type[Exception]) -> Iterator[None]:
    """Shows errors of these kinds as one line of text, without a traceback."""
    try:
        yield
    except kinds as error:
        raise typer.BadParameter(str(error)) from error


def make_folder(output: Path) -> None:
    """Makes the folder to write to, before anything is computed."""
    with plainly(OSError):
        output.mkdir(parents=True, exist_ok=True)


def tell_written(paths: Iterable[Path]) -> None:
    """Prints what has been written."""
    for path in paths:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def tell(text: str) -> None:
    """Says what is under way: plain lines with the time of day where there is no terminal."""
    if messages.is_terminal:
        messages.print(f"[dim]{text}[/dim]", soft_wrap=True)
    else:
        messages.print(f"{time.strftime('%H:%M:%S')}  {text}", markup=False, soft_wrap=True)


def table_of(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]], words: int = 2) -> Table:
    """A table for the terminal; the first columns are words, the others numbers."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i < words else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


class Counter:
    """Says how many rows are done: in one line on a terminal, else in a line now and then."""

    def __init__(self) -> None:
        self._began = self._said = time.perf_counter()

    def __call__(self, rows: int) -> None:
        """So many rows are done."""
        now = time.perf_counter()
        text = f"{rows:,} rows, {rows / max(1e-9, now - self._began):,.0f} a second"
        if messages.is_terminal:
            messages.print(f"[dim]{text}[/dim]", end="\r")
        elif now - self._said > EVERY:
            self._said = now
            tell(text)
