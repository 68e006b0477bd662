"""Results of a grid of cells, side by side through joblib; what is done stays done.

A result is appended to a file of JSON lines, and forced onto the disk, when its cell has finished. Run again, a grid
does what is missing. An interrupt loses the cells that were under way. Cells run in processes of this machine, or on a
Dask cluster, whose scheduler gives those of a worker that has died to another one.
"""

import importlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import gpytorch
import torch
from joblib import Parallel, delayed

from actgp.version import __version__

Record = dict[str, Any]
C = TypeVar("C")
R = TypeVar("R")

CUT_OFF = "{"  # what is left of a line begins as lines do


class Store:
    """A file of JSON lines, one for each finished cell."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def records(self) -> list[Record]:
        """What is stored; lines that were cut off do not count, and a file with lines of another kind is refused."""
        if not self.path.exists():
            return []
        if self.path.is_dir():
            raise IsADirectoryError(f"results must be a file, got the directory {str(self.path)!r}; add a file name")
        texts = self.path.read_bytes().decode("utf-8", errors="replace").split("\n")
        found = [_parsed(text, f"{self.path}, line {i}") for i, text in enumerate(texts, start=1) if text.strip()]
        return [record for record in found if record is not None]

    def records_of(self, configuration: Record) -> list[Record]:
        """What is stored; refuses a file with results of another configuration."""
        found = self.records()
        if any(record.get("configuration") != configuration for record in found):
            raise ValueError(
                f"results in one file must have the same configuration, got another one in {self.path}; "
                "write to another file, or delete that one"
            )
        return found

    def claim(self) -> None:
        """Makes sure that lines can be added, before there are any; a last line that was cut off is removed."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                file.seek(0)
                *_, last = file.read().rpartition(b"\n")
                if last.startswith(CUT_OFF.encode()) and not _is_json(last):
                    file.truncate(file.tell() - len(last))
        except OSError as error:
            raise type(error)(
                f"results must go to a file that can be written, got {str(self.path)!r} ({error}); choose another one"
            ) from error

    def append(self, record: Record) -> None:
        """Adds a line, and waits until it is on the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            if file.tell() > 0:  # after a line that was cut off, begin a new one
                file.seek(-1, os.SEEK_END)
                file.write(b"" if file.read(1) == b"\n" else b"\n")
            file.write(json.dumps(record).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def run_cells(work: Callable[[C], Record], cells: Sequence[C], store: Store, jobs: int | str) -> Iterator[Record]:
    """Runs cells side by side, and gives each result once it is stored.

    Args:
        work: Runs a cell.
        cells: The cells.
        store: Where results go.
        jobs: How many at a time; or the address of a Dask scheduler, such as tcp://host:8786.
    """
    store.claim()
    for record in _side_by_side(work, cells, jobs):
        store.append(record)
        yield record


def run_groups(
    work: Callable[[C], Sequence[Record]], groups: Sequence[C], store: Store, jobs: int | str
) -> Iterator[Record]:
    """The same for work that gives several results together."""
    store.claim()
    for records in _side_by_side(work, groups, jobs):
        for record in records:
            store.append(record)
        yield from records


def _side_by_side(work: Callable[[C], R], cells: Sequence[C], jobs: int | str) -> Iterator[R]:
    return _on_cluster(work, cells, jobs) if isinstance(jobs, str) else _on_this_machine(work, cells, jobs)


def _on_this_machine(work: Callable[[C], R], cells: Sequence[C], num_jobs: int) -> Iterator[R]:
    parallel = Parallel(n_jobs=num_jobs, return_as="generator_unordered")
    yield from parallel(delayed(work)(cell) for cell in cells)


def _on_cluster(work: Callable[[C], R], cells: Sequence[C], address: str) -> Iterator[R]:
    """Gives what the cells come to; if some failed, the first error after all others have come."""
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        raise ImportError(
            f"cells on a Dask cluster need dask.distributed, got none ({error}); run pip install 'distributed'"
        ) from error
    failed: list[Exception] = []
    with distributed.Client(address) as client:
        futures = client.map(work, cells, pure=False)
        for future in distributed.as_completed(futures):
            failure = future.exception()
            if failure is None:
                yield future.result()
            else:
                failed.append(failure)
    if failed:
        raise failed[0]


def _parsed(line: str, where: str) -> Record | None:
    """A line's record; None if the line was cut off."""
    if _is_json(line) and isinstance(record := json.loads(line), dict):
        return record
    if line.startswith(CUT_OFF):
        return None
    raise ValueError(f"{where}: a line of results must be a JSON object, got {line[:60]!r}; write to another file")


def _is_json(text: str | bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:  # also of bytes that are no text
        return False
    return True


def versions() -> dict[str, str]:
    """Of the software that a result depends on."""
    return {
        "actgp": __version__,
        "torch": torch.__version__,
        "gpytorch": gpytorch.__version__,
        "python": platform.python_version(),
    }


def missing_cells(wanted: Sequence[C], stored: Mapping[C, Record], *, again: bool) -> list[C]:
    """The cells that are still to be run.

    Args:
        wanted: Those to be there.
        stored: Of each cell the record that was written last.
        again: Whether results of other revisions of the code do not count.
    """
    return [cell for cell in wanted if cell not in stored or (again and is_stale(stored[cell]))]


def is_stale(record: Record) -> bool:
    """Whether another revision of the code, with other defaults perhaps, has made a result."""
    return record.get("revision") != revision()


@cache
def revision() -> str:
    """Of the code that runs, as git has it; with a plus sign if some of it is not committed, and empty outside git."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    head = git("rev-parse", "--short=12", "HEAD")
    return head + (
        "+" if head and git("status", "--porcelain", "--untracked-files=no", ":/src", ":/experiments") else ""
    )
