"""`actgp show`."""

from pathlib import Path
from typing import Annotated

import typer

from actgp.cli.models import Model, table_model
from actgp.cli.terminal import console, plainly, tell_written
from actgp.page import write_page


def show(
    model: Model,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The HTML file; by default the model's name with .html.")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open/--no-open", help="Whether to open it, on a terminal.")] = True,
) -> None:
    """Write the page of a model, and open it in a browser.

    [bold]Examples[/bold]

    actgp show prices.actgp

    actgp show prices.actgp -o report.html --no-open
    """
    output = model.with_suffix(".html") if output is None else output
    with plainly(OSError, ValueError, TypeError):
        table = table_model(model)
        if not table.page:
            raise ValueError(f"{str(model)!r} must hold the numbers of a page, got none; fit again, without --no-page")
        write_page(table, output)
    tell_written([output])
    if open_it and console.is_terminal:
        typer.launch(output.absolute().as_uri())
