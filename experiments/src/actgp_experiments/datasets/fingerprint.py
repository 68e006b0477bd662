"""What data hold, whatever the format they came in.

For tables the order of rows does not matter: a row is written out with six significant digits a number; sorted, the
rows give a digest, and an order of the table. For arrays of bytes it does matter.
"""

import hashlib

import numpy as np
import numpy.typing as npt


def digest(table: npt.NDArray[np.float64]) -> str:
    """SHA-256 of the sorted rows of a table [N, C]."""
    return hashlib.sha256("\n".join(sorted(_rows(table))).encode()).hexdigest()


def digest_in_order(*arrays: npt.NDArray[np.uint8]) -> str:
    """SHA-256 of arrays of bytes, their shapes included."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype} {list(array.shape)}\n".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def order(table: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Indices [N] that sort the rows of a table [N, C]: the same rows in the same order, however they were shuffled."""
    rows = _rows(table)
    return np.array(sorted(range(len(rows)), key=rows.__getitem__), dtype=np.int64)


def _rows(table: npt.NDArray[np.float64]) -> list[str]:
    pattern = " ".join(["%.5e"] * table.shape[1])
    return [pattern % tuple(row) for row in (table + 0.0).tolist()]  # −0 + 0 = 0: one way to write it
