"""A cell that a Dask worker can run without importing anything of ours."""

import os
import time
from pathlib import Path


def cell(i: int, folder: Path) -> dict[str, int]:
    """Says that it has begun, and takes a while."""
    with (folder / "begun").open("a") as file:
        file.write(f"{i} {os.getpid()}\n")
    time.sleep(0.2)
    if i == 99:
        raise ArithmeticError("expected a number that is not 99")
    return {"cell": i, "process": os.getpid()}
