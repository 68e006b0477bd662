"""The two formats that sources come in, each read into a table [N, C]: inputs first, then the target."""

import io
import zipfile
import zlib

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_svmlight_file

# What NumPy, scikit-learn and zipfile raise for files that are cut short, damaged or of another format.
DAMAGES = (
    *(ValueError, KeyError, IndexError, TypeError, EOFError, NotImplementedError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)


def text(data: bytes) -> npt.NDArray[np.float64]:
    """Numbers with blanks or tabs between them, a line a row."""
    if not data.strip():
        raise ValueError("text must hold numbers, got none; download it again")
    return np.loadtxt(io.BytesIO(data), dtype=np.float64, ndmin=2)


def zipped_svmlight(data: bytes) -> npt.NDArray[np.float64]:
    """A zip archive whose first file has lines `label 1:x₁ 2:x₂`, label −1 or 1, which becomes 0 or 1."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        lines = archive.read(archive.namelist()[0])
    X, y = load_svmlight_file(io.BytesIO(lines), n_features=2, zero_based=False)
    return np.column_stack([X.toarray(), y > 0]).astype(np.float64)
