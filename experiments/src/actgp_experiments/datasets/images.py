"""Images of ten classes by name."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from actgp import checks
from actgp_experiments.datasets.image_sources import IMAGE_SETS, IMAGE_SOURCES, NUM_CLASSES, Bytes
from actgp_experiments.datasets.storage import find


@dataclass(frozen=True, eq=False)
class Images:
    """A set of images with its published split.

    Attributes:
        name: What it is called here; "cifar10_subset" where a folder has that alone.
        X_train: Images [N, C, H, W] to learn from, float32 in [0, 1].
        y_train: Their classes [N], int64.
        X_test: Images to test on.
        y_test: Their classes.
        num_classes: Classes are 0 … num_classes − 1.
    """

    name: str
    X_train: Tensor
    y_train: Tensor
    X_test: Tensor
    y_test: Tensor
    num_classes: int


def load_images(name: str, *, folder: Path | None = None) -> Images:
    """Loads a set of images: from ACTGP_DATA, from the cache, or by a download into the cache.

    Args:
        name: One of `IMAGE_SETS`. If ACTGP_DATA has no `cifar10.npz` but a `cifar10_subset.npz`, the first 1,000 and
            200 images of each class, that is loaded for "cifar10", and called by its own name. Of `cifar10.npz` the
            values of these alone can be checked; of a download, the digest of the whole file.
        folder: A folder with `<name>.npz` to use instead, and nothing else.
    """
    source = IMAGE_SOURCES[checks.choice(name, "name", IMAGE_SETS)]
    stand_ins = (IMAGE_SOURCES["cifar10_subset"],) if name == "cifar10" else ()
    pixels = find(source, folder, *stand_ins)
    return Images(
        name=pixels.name,
        X_train=_unit_range(pixels.x_train),
        y_train=torch.from_numpy(pixels.y_train.astype("int64")),
        X_test=_unit_range(pixels.x_test),
        y_test=torch.from_numpy(pixels.y_test.astype("int64")),
        num_classes=NUM_CLASSES,
    )


def _unit_range(x: Bytes) -> Tensor:
    """0 … 255 to 0 … 1, in memory of its own and in the usual order."""
    return torch.from_numpy(x.astype("float32", order="C")).div_(255)
