"""Banana: two classes in the plane, 400 points to learn from and 4,900 to test on."""

import base64
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from actgp_experiments.datasets.fingerprint import order
from actgp_experiments.datasets.sources import SOURCES
from actgp_experiments.datasets.storage import find

# The usual 400, as GPflow's examples have them: a bit for each point in the order of `fingerprint.order`.
_TRAIN = (
    "AEAAEAAABAAAAAQIEAAAAAAADEAAEAAAVIAAAECAAQAgEIAAAAAAICAgAAAAgAAAAAAIAABABFkAAAQAAAgADQAgAQIBACAAAQAIAFAIIAABAA"
    "AAEBAAAFgAQBACgCABAQAKACIgSAAAAEAAAEEIQICAAAEAABAAIAEAgCMAACAGAAAAYAAAgAwAiAAAAAAAEgAAAABAgAAJAAAAAAAQIgACAAQE"
    "AIIiAQQIAAAAAACABiAEEAAAAAAAABAAAAEAAAoQACAAAAAAAABAAAAAAAAAAAACAAAAQAAAIAACIAAAIIAQAACAAAAkAAAAQAAIAgABAQAAAA"
    "BAAAAAAEAAIGIAAAFQAAIABEAAAAAABAQAggAQQAKAUQhAAAAEAEAABAAAAAAIAAAAAACACAAQBAAAAACAAAQAAIAEQQEAAAAACAADBAQipgCg"
    "AAAAAASAIAAEEBIAAAAACAQTAEgBAAAAACDgAEQFAAABAAAgYCAAIoEAAABQAAQAEAABAAgAAAAAAAEEKAAAQAAABAQABAMAAAACACAAEgAAAA"
    "AABQKAAAACAAACCAAAAwAAAYAAAAAAACAIAAAAgAAAwCAAQIAAAACAAAAAAAAAAYAAIAAAgAAAgByAAAAAAAAEBAJAAghAwGkAAgRAAEACBAAB"
    "AAAABCAAAAAAIBAACAAAEAAAAAEARAAIAAAKAQAAJAAAAAgCRAQCIABAAAKAEIEAAEAAAQAAAIBAEACEAAAIIIBECAACgAAICCACACgIAAAAQA"
    "AAAgiCAAiAAAAUABAgBAAAAAAQCAgAACAAAAEUAAAACBAgrgAAAAAgQAAACKJAAAAEBAAACACABCgAAAEgAAAAABAACAAggCABQgAABAgQAAwA"
    "AAAA"
)


@dataclass(frozen=True, eq=False)
class Banana:
    """Rätsch's banana set.

    Attributes:
        X_train: Inputs [400, 2] to learn from.
        y_train: Their labels [400], 0 or 1.
        X_test: The other inputs [4900, 2].
        y_test: Their labels [4900].
    """

    X_train: npt.NDArray[np.float64]
    y_train: npt.NDArray[np.int64]
    X_test: npt.NDArray[np.float64]
    y_test: npt.NDArray[np.int64]


def load_banana(*, folder: Path | None = None) -> Banana:
    """Loads banana: from ACTGP_DATA, from the cache, or by a download into the cache.

    Args:
        folder: A folder with `banana_full.npz` to use instead, and nothing else.
    """
    table = find(SOURCES["banana"], folder)
    bits = np.unpackbits(np.frombuffer(base64.b64decode(_TRAIN), dtype=np.uint8), count=len(table))
    train = np.empty(len(table), dtype=bool)  # [N]
    train[order(table)] = bits == 1
    X, y = table[:, :2], table[:, 2].astype(np.int64)
    return Banana(X[train], y[train], X[~train], y[~train])
