"""The formats that sources come in, read into arrays: tables [N, C], inputs first, then the target; images; labels."""

import gzip
import io
import tarfile
import zipfile
import zlib

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_svmlight_file

# What NumPy, scikit-learn and the archives' modules raise for files that are cut short, damaged or of another format.
DAMAGES = (
    *(ValueError, KeyError, IndexError, TypeError, EOFError, NotImplementedError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, gzip.BadGzipFile, tarfile.TarError),
)
CIFAR_SHAPE = (3, 32, 32)


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


def gzipped_idx(data: bytes) -> npt.NDArray[np.uint8]:
    """An array of bytes in MNIST's format: 0, 0, 8, the number of axes, their lengths in 32 bits each, the values."""
    content = gzip.decompress(data)
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"an idx file of bytes must begin with 0, 0, 8, got {list(content[:3])}; download it again")
    lengths = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(lengths)).reshape([int(length) for length in lengths])


def cifar_batch(archive: tarfile.TarFile, name: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Images [N, 3, 32, 32] and labels [N] of a batch of CIFAR-10's binary version: a label, then its pixels."""
    file = archive.extractfile(f"cifar-10-batches-bin/{name}.bin")  # in memory; nothing is unpacked to the disk
    if file is None:
        raise ValueError(f"{name}.bin must be a file, got something else of that name; download it again")
    records = np.frombuffer(file.read(), np.uint8).reshape(-1, 1 + int(np.prod(CIFAR_SHAPE)))  # [N, 3073]
    return records[:, 1:].reshape(-1, *CIFAR_SHAPE), records[:, 0]
