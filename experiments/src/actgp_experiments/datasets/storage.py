"""Folders of data: the user's, named by ACTGP_DATA, and the cache. Both hold NumPy archives."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from actgp.persistence import archive
from actgp_experiments.datasets.download import DatasetUnavailable, download
from actgp_experiments.datasets.formats import DAMAGES
from actgp_experiments.datasets.origin import Origin, T


def find(source: Origin[T], folder: Path | None, *stand_ins: Origin[T]) -> T:
    """A set, checked, from the first place that has it.

    Args:
        source: The set.
        folder: The only folder to look in; if None, ACTGP_DATA, the cache and the network have their turn.
        stand_ins: What a folder of the user's may hold in its place.
    """
    candidates = (source, *stand_ins)
    if folder is not None:
        if present := _present(_directory(Path(folder), "folder"), candidates):
            return _read(*present)
        raise DatasetUnavailable(
            f"folder must hold {' or '.join(candidate.file for candidate in candidates)}, got {str(folder)!r}, which "
            "does not; put it there, or pass folder=None to have it downloaded"
        )
    data = os.environ.get("ACTGP_DATA")
    if data and (present := _present(_directory(Path(data), "ACTGP_DATA"), candidates)):
        return _read(*present)
    path = cache_folder() / source.file
    if path.is_file():
        return _read(path, source)
    found = download(source)
    _write(path, found, source)
    return found


def cache_folder() -> Path:
    """Where downloads are kept: ACTGP_CACHE, or `actgp` in XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("ACTGP_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "actgp"


def _present(directory: Path, candidates: tuple[Origin[T], ...]) -> tuple[Path, Origin[T]] | None:
    """The first file that is there, and the set it is of."""
    files_of = ((directory / candidate.file, candidate) for candidate in candidates)
    return next(((path, candidate) for path, candidate in files_of if path.is_file()), None)


def _directory(path: Path, name: str) -> Path:
    path = path.expanduser()
    if not path.is_dir():
        raise NotADirectoryError(f"{name} must be a folder that exists, got {str(path)!r}; check its spelling")
    return path


def _read(path: Path, source: Origin[T]) -> T:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            data = source.unpack({key: archive[key] for key in source.keys})
        fault = source.fault(data)
    except (*DAMAGES, OSError) as error:
        fault = f"a file that cannot be read as such ({error})"
    if fault:
        raise ValueError(
            f"{str(path)!r} must hold {' and '.join(source.keys)} of {source.name}, {source.contents}, got {fault}; "
            "delete it, and it will be looked for elsewhere or downloaded"
        )
    return data


def _write(path: Path, data: T, source: Origin[T]) -> None:
    buffer = io.BytesIO()
    arrays: dict[str, Any] = source.pack(data)
    np.savez_compressed(buffer, **arrays)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(path, buffer.getvalue())
    except OSError as error:
        raise DatasetUnavailable(
            f"the cache must be a folder that can be written, got {str(path.parent)!r} ({error}); point ACTGP_CACHE at "
            f"one that can, or ACTGP_DATA at a folder with {source.file}"
        ) from error
