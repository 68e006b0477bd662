"""What the library refuses, told on the command line."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def plainly(*kinds: type[Exception]) -> Iterator[None]:
    """Tells errors of these kinds by their text, without a traceback."""
    try:
        yield
    except kinds as error:
        raise typer.BadParameter(str(error)) from error
