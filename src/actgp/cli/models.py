"""The file of a table's model, as an argument."""

from pathlib import Path
from typing import Annotated

import typer

from actgp.loading import load
from actgp.tabular import TableModel

Model = Annotated[Path, typer.Argument(help="What actgp fit has written.", metavar="MODEL")]


def table_model(path: Path) -> TableModel:
    """Reads it; other files of the library are refused."""
    model = load(path)
    if not isinstance(model, TableModel):
        raise ValueError(
            f"MODEL must be what actgp fit has written, got a {type(model).__name__} in {str(path)!r}; read it in "
            "Python, with actgp.load"
        )
    return model
