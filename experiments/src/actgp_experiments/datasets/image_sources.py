"""Where the images come from, and what they must hold.

MNIST is read from the mirror that torchvision uses, Fashion-MNIST and CIFAR-10 from their authors, the latter in its
binary version, whose files hold nothing but bytes. The SHA-256 of the files are those that TensorFlow Datasets
publishes for them; no download from the addresses below has been run.

The digests are of values, not of files, and were computed from copies of the data. Of CIFAR-10 there was a copy of the
first 1,000 training and the first 200 test images of each class only. These, the shapes and the sizes of classes are
checked wherever the set comes from; the rest of a download is vouched for by the SHA-256 of its file, the rest of a
`cifar10.npz` that someone else has made by nothing.
"""

import hashlib
import io
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from actgp_experiments.datasets import formats
from actgp_experiments.datasets.fingerprint import digest_in_order

Bytes = npt.NDArray[np.uint8]
NUM_CLASSES = 10


class Pixels(NamedTuple):
    """A set of images as bytes: x [N, C, H, W], labels y [N]."""

    name: str
    x_train: Bytes
    y_train: Bytes
    x_test: Bytes
    y_test: Bytes


def idx_files(downloads: Sequence[bytes]) -> tuple[Bytes, ...]:
    """Training images and labels, test images and labels, from a file each."""
    x_train, y_train, x_test, y_test = map(formats.gzipped_idx, downloads)
    return x_train[:, None], y_train, x_test[:, None], y_test


def cifar_archive(downloads: Sequence[bytes]) -> tuple[Bytes, ...]:
    """Training images and labels, test images and labels, from the archive of CIFAR-10's binary version."""
    (data,) = downloads
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        batches = [formats.cifar_batch(archive, f"data_batch_{i}") for i in range(1, 6)]
        x_train, y_train = map(np.concatenate, zip(*batches, strict=True))
        return x_train, y_train, *formats.cifar_batch(archive, "test_batch")


@dataclass(frozen=True)
class ImageSource:
    """One set.

    Attributes:
        name: What it is called here.
        shape: Channels, height and width.
        num_train: How many images there are to learn from.
        num_test: How many to test on.
        digest: `fingerprint.digest_in_order` of images and labels.
        base: Address that downloads start from.
        downloads: What follows the base, with the SHA-256 of that file.
        first: How many training and test images of each class, the first ones, the digest is of; if None, of all.
        parse: Reads the downloads.
    """

    name: str
    shape: tuple[int, int, int]
    num_train: int
    num_test: int
    digest: str
    base: str = ""
    downloads: tuple[tuple[str, str], ...] = ()
    first: tuple[int, int] | None = None
    parse: Callable[[Sequence[bytes]], tuple[Bytes, ...]] = idx_files

    keys = ("x_train", "y_train", "x_test", "y_test")

    @property
    def file(self) -> str:
        """Its file in a folder of data, where images are [N, H, W], or [N, H, W, C] if they have colours."""
        return f"{self.name}.npz"

    @property
    def contents(self) -> str:
        """What it must hold, in words."""
        images = f"{self.num_train} and {self.num_test} images of shape {list(self.shape)} and their labels"
        which = "" if self.first is None else f", the first {self.first[0]} and {self.first[1]} of each class"
        return f"{images}{which} with digest {self.digest[:12]}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """What is downloaded."""
        return tuple(f"{self.base}/{path}" for path, _ in self.downloads)

    def assemble(self, downloads: Sequence[bytes]) -> Pixels:
        """The set from what the addresses gave."""
        for data, (path, sha256) in zip(downloads, self.downloads, strict=True):
            found = hashlib.sha256(data).hexdigest()
            if found != sha256:
                raise ValueError(f"{path} must have SHA-256 {sha256[:12]}, got {found[:12]}; download it again")
        return Pixels(self.name, *self.parse(downloads))

    def unpack(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Pixels:
        """The set from the arrays of an archive."""
        for key in self.keys:
            if arrays[key].dtype != np.uint8:
                raise TypeError(f"{key} must be uint8, got {arrays[key].dtype}; store bytes")
        x_train, y_train, x_test, y_test = (arrays[key] for key in self.keys)
        return Pixels(self.name, _channels_first(x_train), y_train, _channels_first(x_test), y_test)

    def pack(self, data: Pixels) -> dict[str, npt.NDArray[Any]]:
        """The arrays of an archive from the set."""
        _, x_train, y_train, x_test, y_test = data
        return {"x_train": _as_stored(x_train), "y_train": y_train, "x_test": _as_stored(x_test), "y_test": y_test}

    def fault(self, data: Pixels) -> str:
        """What is wrong with a set, in words; nothing if it is right."""
        for x, y, num_images in (
            (data.x_train, data.y_train, self.num_train),
            (data.x_test, data.y_test, self.num_test),
        ):
            if x.shape != (num_images, *self.shape) or y.shape != (num_images,):
                return f"images {list(x.shape)} and labels {list(y.shape)}"
            counts = np.bincount(y, minlength=NUM_CLASSES).tolist()
            if len(counts) != NUM_CLASSES or (self.first is not None and len(set(counts)) > 1):
                return f"classes of {counts} images"
        found = self._digest(data)
        return "" if found == self.digest else f"other values, with digest {found[:12]}"

    def _digest(self, data: Pixels) -> str:
        _, x_train, y_train, x_test, y_test = data
        if self.first is not None:
            train, test = _first_of_each(y_train, self.first[0]), _first_of_each(y_test, self.first[1])
            x_train, y_train, x_test, y_test = x_train[train], y_train[train], x_test[test], y_test[test]
        return digest_in_order(x_train, y_train, x_test, y_test)


def _channels_first(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.moveaxis(x, -1, 1) if x.ndim == 4 else x[:, None]


def _as_stored(x: Bytes) -> Bytes:
    return x[:, 0] if x.shape[1] == 1 else np.ascontiguousarray(np.moveaxis(x, 1, -1))


def _first_of_each(y: Bytes, number: int) -> npt.NDArray[np.intp]:
    """Indices, in order, of the first images of each class; classes are of one size."""
    return np.sort(np.argsort(y, kind="stable").reshape(NUM_CLASSES, -1)[:, :number], axis=None)


IMAGE_SETS = ("mnist", "fashion_mnist", "cifar10")

_ALL = (
    ImageSource(
        name="mnist",
        shape=(1, 28, 28),
        num_train=60000,
        num_test=10000,
        digest="e6f20e8e2e03eb1eb55f9de4bb06e4226fddd7d37f872c572a18b0cad57e1a98",
        base="https://ossci-datasets.s3.amazonaws.com/mnist",
        downloads=(
            ("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            ("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            ("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            ("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
    ),
    ImageSource(
        name="fashion_mnist",
        shape=(1, 28, 28),
        num_train=60000,
        num_test=10000,
        digest="6a2178bcd9a71bdc2b3aa02d9b118552b0a5b879270e4d10e632fcdae1f1e9c8",
        base="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        downloads=(
            ("train-images-idx3-ubyte.gz", "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            ("train-labels-idx1-ubyte.gz", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            ("t10k-images-idx3-ubyte.gz", "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            ("t10k-labels-idx1-ubyte.gz", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        ),
    ),
    ImageSource(
        name="cifar10",
        shape=formats.CIFAR_SHAPE,
        num_train=50000,
        num_test=10000,
        digest="c157e81967de42bcb30656e62d650c2bef2615b88ca06312a21d7a0524d814a5",
        base="https://www.cs.toronto.edu/~kriz",
        downloads=(("cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),),
        first=(1000, 200),
        parse=cifar_archive,
    ),
    ImageSource(
        name="cifar10_subset",
        shape=formats.CIFAR_SHAPE,
        num_train=10000,
        num_test=2000,
        digest="c157e81967de42bcb30656e62d650c2bef2615b88ca06312a21d7a0524d814a5",
    ),
)
IMAGE_SOURCES = {source.name: source for source in _ALL}
