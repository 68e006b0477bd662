"""Folders of data: the user's, named by ACTGP_DATA, and the cache. Both hold NumPy archives with X [N, D] and y [N]."""

import io
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from actgp import files
from actgp.datasets.download import DatasetUnavailable, download
from actgp.datasets.formats import DAMAGES
from actgp.datasets.sources import Source


def find(source: Source, folder: Path | None) -> npt.NDArray[np.float64]:
    """The table [N, D + 1] of a set, checked, from the first place that has it.

    Args:
        source: The set.
        folder: The only folder to look in; if None, ACTGP_DATA, the cache and the network have their turn.
    """
    if folder is not None:
        path = _directory(Path(folder), "folder") / source.file
        if not path.is_file():
            raise DatasetUnavailable(
                f"folder must hold {source.file}, got {str(folder)!r}, which does not; put it there, or pass "
                "folder=None to have it downloaded"
            )
        return _read(path, source)
    if data := os.environ.get("ACTGP_DATA"):
        path = _directory(Path(data), "ACTGP_DATA") / source.file
        if path.is_file():
            return _read(path, source)
    path = cache_folder() / source.file
    if path.is_file():
        return _read(path, source)
    table = download(source)
    _write(path, table, source)
    return table


def cache_folder() -> Path:
    """Where downloads are kept: ACTGP_CACHE, or `actgp` in XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("ACTGP_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "actgp"


def _directory(path: Path, name: str) -> Path:
    path = path.expanduser()
    if not path.is_dir():
        raise NotADirectoryError(f"{name} must be a folder that exists, got {str(path)!r}; check its spelling")
    return path


def _read(path: Path, source: Source) -> npt.NDArray[np.float64]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            table = np.column_stack([archive["X"], archive["y"]]).astype(np.float64, casting="same_kind")
        fault = source.fault(table)
    except (*DAMAGES, OSError) as error:
        fault = f"a file that cannot be read as such ({error})"
    if fault:
        raise ValueError(
            f"{str(path)!r} must hold X and y of {source.name}, {source.contents}, got {fault}; delete it, and it will "
            "be looked for elsewhere or downloaded"
        )
    return table


def _write(path: Path, table: npt.NDArray[np.float64], source: Source) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, X=table[:, :-1], y=table[:, -1])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, buffer.getvalue())
    except OSError as error:
        raise DatasetUnavailable(
            f"the cache must be a folder that can be written, got {str(path.parent)!r} ({error}); point ACTGP_CACHE at "
            f"one that can, or ACTGP_DATA at a folder with {source.file}"
        ) from error
