"""Images, on stand-ins of a few of them."""

import gzip
import hashlib
import io
import tarfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from standins import Server, contents

from actgp_experiments import datasets
from actgp_experiments.datasets import formats
from actgp_experiments.datasets.fingerprint import digest_in_order
from actgp_experiments.datasets.image_sources import IMAGE_SOURCES, ImageSource, cifar_archive

Arrays = dict[str, np.ndarray]


def small(colours: bool, num_train: int = 50, num_test: int = 20) -> Arrays:
    """As an archive has it: [N, 28, 28] or [N, 32, 32, 3], classes of one size."""
    rng = np.random.default_rng(0)
    size = (32, 32, 3) if colours else (28, 28)
    x_train, x_test = (rng.integers(0, 256, (n, *size), dtype=np.uint8) for n in (num_train, num_test))
    y_train, y_test = (rng.permutation(np.arange(n, dtype=np.uint8) % 10) for n in (num_train, num_test))
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


def channels_first(x: np.ndarray) -> np.ndarray:
    return x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)


def digest(arrays: Arrays) -> str:
    return digest_in_order(*(channels_first(array) if key.startswith("x") else array for key, array in arrays.items()))


def idx(array: np.ndarray) -> bytes:
    lengths = b"".join(length.to_bytes(4, "big") for length in array.shape)
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + lengths + array.tobytes())


def archive(arrays: Arrays) -> bytes:
    """CIFAR-10's binary version: five batches and a test batch, each image after its label."""
    records = {
        part: np.column_stack([arrays[f"y_{part}"], channels_first(arrays[f"x_{part}"]).reshape(-1, 3072)])
        for part in ("train", "test")
    }
    batches = {f"data_batch_{i + 1}": batch for i, batch in enumerate(np.array_split(records["train"], 5))}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, batch in (batches | {"test_batch": records["test"]}).items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            entry.size = batch.size
            tar.addfile(entry, io.BytesIO(batch.tobytes()))
    return buffer.getvalue()


def serve(server: Server, files: dict[str, bytes]) -> tuple[tuple[str, str], ...]:
    server.files = files
    return tuple((path, hashlib.sha256(data).hexdigest()) for path, data in files.items())


@pytest.fixture
def mnist(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Arrays:
    """A few images in MNIST's place, which the server has."""
    arrays = small(colours=False)
    changes = {"num_train": 50, "num_test": 20, "digest": digest(arrays), "base": server.address}
    files = {path: idx(a) for (path, _), a in zip(IMAGE_SOURCES["mnist"].downloads, arrays.values(), strict=True)}
    source = replace(IMAGE_SOURCES["mnist"], downloads=serve(server, files), **changes)
    monkeypatch.setitem(IMAGE_SOURCES, "mnist", source)
    return arrays


@pytest.fixture
def cifar(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Arrays:
    """A few images in CIFAR-10's place, which the server has, and the first two and one of each class as the subset."""
    arrays = small(colours=True)
    train, test = (first_of_each(arrays[f"y_{part}"], n) for part, n in (("train", 2), ("test", 1)))
    part = {key: array[train if key.endswith("train") else test] for key, array in arrays.items()}
    changes = {"num_train": 50, "num_test": 20, "first": (2, 1), "digest": digest(part), "base": server.address}
    downloads = serve(server, {"cifar-10-binary.tar.gz": archive(arrays)})
    full = replace(IMAGE_SOURCES["cifar10"], downloads=downloads, **changes)
    subset = replace(IMAGE_SOURCES["cifar10_subset"], num_train=20, num_test=10, digest=digest(part))
    monkeypatch.setitem(IMAGE_SOURCES, "cifar10", full)
    monkeypatch.setitem(IMAGE_SOURCES, "cifar10_subset", subset)
    return arrays


def first_of_each(y: np.ndarray, number: int) -> list[int]:
    return [i for i in range(len(y)) if (y[:i] == y[i]).sum() < number]


def check(images: datasets.Images, arrays: Arrays) -> None:
    for X, y, part in ((images.X_train, images.y_train, "train"), (images.X_test, images.y_test, "test")):
        expected = torch.from_numpy(channels_first(arrays[f"x_{part}"]).copy())
        assert (X.dtype, y.dtype) == (torch.float32, torch.int64)
        assert X.is_contiguous()
        assert torch.equal((255 * X).round().to(torch.uint8), expected)
        assert (X.min(), X.max()) == (0, 1)
        assert y.tolist() == arrays[f"y_{part}"].tolist()
    assert images.num_classes == 10


def test_mnist_is_downloaded_kept_and_used_again(mnist: Arrays, server: Server, cache: Path) -> None:
    first, second = datasets.load_images("mnist"), datasets.load_images("mnist", folder=cache)
    assert server.requests == 4
    assert contents(cache) == ["mnist.npz"]
    for images in (first, second, datasets.load_images("mnist")):
        assert images.name == "mnist"
        assert images.X_train.shape == (50, 1, 28, 28)
        check(images, mnist)
    assert server.requests == 4


def test_cifar_is_downloaded_kept_and_used_again(cifar: Arrays, server: Server, cache: Path) -> None:
    first, second = datasets.load_images("cifar10"), datasets.load_images("cifar10")
    assert server.requests == 1
    assert contents(cache) == ["cifar10.npz"]
    for images in (first, second):
        assert images.name == "cifar10"
        assert images.X_test.shape == (20, 3, 32, 32)
        check(images, cifar)
    with np.load(cache / "cifar10.npz", allow_pickle=False) as kept:
        assert kept["x_train"].shape == (50, 32, 32, 3)


def test_a_subset_in_the_users_folder_stands_in(
    cifar: Arrays, server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = first_of_each(cifar["y_train"], 2), first_of_each(cifar["y_test"], 1)
    part = {key: array[train if key.endswith("train") else test] for key, array in cifar.items()}
    folder = tmp_path / "data"
    folder.mkdir()
    with pytest.raises(datasets.DatasetUnavailable, match=r"folder must hold cifar10.npz or cifar10_subset.npz, got"):
        datasets.load_images("cifar10", folder=folder)
    np.savez(folder / "cifar10_subset.npz", train_idx=np.array(train), **part)
    monkeypatch.setenv("ACTGP_DATA", str(folder))
    for images in (datasets.load_images("cifar10"), datasets.load_images("cifar10", folder=folder)):
        assert images.name == "cifar10_subset"
        check(images, part)
    np.savez(folder / "cifar10.npz", **cifar)
    check(datasets.load_images("cifar10"), cifar)
    assert server.requests == 0
    assert not cache.exists()


def one_byte(server: Server) -> None:
    path = list(server.files)[-1]
    server.files[path] = server.files[path][:-1] + bytes([server.files[path][-1] ^ 1])


def short(server: Server) -> None:
    path = list(server.files)[-1]
    server.files[path] = server.files[path][:-1]


def page(server: Server) -> None:
    server.files[next(iter(server.files))] = b"<html>Please log in</html>"


def cut(server: Server) -> None:
    server.missing = 1000


def one_is_gone(server: Server) -> None:
    server.files[list(server.files)[-1]] = b""


def fault_of_server(server: Server) -> None:
    server.status = 500


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
@pytest.mark.parametrize(
    ("harm", "match"),
    [
        (
            one_byte,
            r"must hold 50 and 20 images of shape .*, got \d+ bytes .*gz must have SHA-256 .*, got .*ACTGP_DATA",
        ),
        (short, r"must have SHA-256 .*; nothing of it was kept: try again later, or point ACTGP_DATA at a folder"),
        (page, r"\(.*gz must have SHA-256"),
        (cut, r"gz failed with IncompleteRead .* connect to the internet, or point ACTGP_DATA at a folder with .*npz"),
        (one_is_gone, "failed with HTTPError .*404"),
        (fault_of_server, "failed with HTTPError .*500"),
    ],
)
def test_a_bad_download_leaves_nothing(
    request: pytest.FixtureRequest,
    server: Server,
    cache: Path,
    name: str,
    harm: Callable[[Server], None],
    match: str,
) -> None:
    arrays = request.getfixturevalue(name.removesuffix("10"))
    good = dict(server.files)
    harm(server)
    with pytest.raises(datasets.DatasetUnavailable, match=match):
        datasets.load_images(name)
    assert contents(cache.parent) == []
    server.files, server.status, server.missing = good, 200, 0
    check(datasets.load_images(name), arrays)
    assert contents(cache.parent) == [f"cache/{name}.npz"]


def test_files_that_are_right_must_hold_the_right_values(
    mnist: Arrays, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = replace(IMAGE_SOURCES["mnist"], digest="0" * 64)
    monkeypatch.setitem(IMAGE_SOURCES, "mnist", source)
    with pytest.raises(datasets.DatasetUnavailable, match=r"with digest 0{12}, got other values, with digest"):
        datasets.load_images("mnist")
    monkeypatch.setitem(IMAGE_SOURCES, "mnist", replace(source, num_train=51))
    with pytest.raises(datasets.DatasetUnavailable, match=r"got images \[50, 1, 28, 28\] and labels \[50\]"):
        datasets.load_images("mnist")
    assert contents(cache.parent) == []


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"y_test": None}, "cannot be read as such .*y_test is not a file in the archive"),
        ({"x_train": np.full(50, None)}, "cannot be loaded when allow_pickle=False"),
        ({"x_train": np.zeros((50, 32, 32, 3))}, "x_train must be uint8, got float64; store bytes"),
        ({"x_test": np.zeros((20, 3, 32, 32), np.uint8)}, r"got images \[20, 32, 3, 32\] and labels \[20\]"),
        ({"x_test": np.uint8(0)}, "cannot be read as such"),
        ({"x_test": np.zeros((19, 32, 32, 3), np.uint8)}, r"got images \[19, 3, 32, 32\]"),
        ({"y_test": np.zeros((20, 1), np.uint8)}, r"labels \[20, 1\]"),
        ({"y_test": np.zeros(20, np.uint8)}, r"got classes of \[20, 0, .*\] images"),
        ({"y_test": np.arange(20, dtype=np.uint8)}, r"got classes of \[1, 1, .*\] images"),
        ({"x_train": np.zeros((50, 32, 32, 3), np.uint8)}, "got other values, with digest"),
    ],
)
def test_a_wrong_file_is_found_out(cifar: Arrays, tmp_path: Path, changes: Arrays, match: str) -> None:
    arrays = {key: array for key, array in (cifar | changes).items() if array is not None}
    np.savez(tmp_path / "cifar10.npz", **arrays)
    with pytest.raises(ValueError, match=match) as caught:
        datasets.load_images("cifar10", folder=tmp_path)
    assert "must hold x_train and y_train and x_test and y_test of cifar10, 50 and 20 images of" in str(caught.value)
    assert "the first 2 and 1 of each class with digest" in str(caught.value)
    assert str(caught.value).endswith("delete it, and it will be looked for elsewhere or downloaded")


def test_the_order_of_images_matters(mnist: Arrays, tmp_path: Path) -> None:
    np.savez(tmp_path / "mnist.npz", **{key: array[::-1] for key, array in mnist.items()})
    with pytest.raises(ValueError, match="got other values, with digest"):
        datasets.load_images("mnist", folder=tmp_path)


def no_images() -> Arrays:
    zeros = np.zeros((5, 32, 32, 3), np.uint8)
    return {"x_train": zeros, "y_train": zeros[:, 0, 0, 0], "x_test": zeros[:1], "y_test": zeros[:1, 0, 0, 0]}


@pytest.mark.parametrize(
    ("good", "parse"),
    [
        (idx(np.arange(24, dtype=np.uint8).reshape(2, 3, 4)), formats.gzipped_idx),
        (archive(no_images()), lambda data: cifar_archive([data])),
    ],
    ids=["idx", "cifar"],
)
def test_damaged_files_raise_what_is_caught(good: bytes, parse: Callable[[bytes], object]) -> None:
    parse(good)
    for i in range(len(good)):
        for bad in (good[:i], good[:i] + bytes([good[i] ^ 255]) + good[i + 1 :]):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    parse(bad)
            except formats.DAMAGES:
                pass


def test_formats_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"must begin with 0, 0, 8, got \[60, 104, 116\]; download it again"):
        formats.gzipped_idx(gzip.compress(b"<html>"))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        folder = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
    with pytest.raises(ValueError, match=r"data_batch_1.bin must be a file, got something else of that name"):
        cifar_archive([buffer.getvalue()])


def test_names() -> None:
    assert datasets.IMAGE_SETS == ("mnist", "fashion_mnist", "cifar10")
    assert set(datasets.IMAGE_SETS) < set(IMAGE_SOURCES)
    with pytest.raises(ValueError, match=r"name must be one of \['mnist', .*'cifar10'\], got 'cifar10_subset'"):
        datasets.load_images("cifar10_subset")


@pytest.mark.parametrize("name", datasets.IMAGE_SETS)
def test_addresses(name: str) -> None:
    source: ImageSource = IMAGE_SOURCES[name]
    assert all(address.startswith("http") and address.endswith(".gz") for address in source.addresses)
    assert all(len(sha256) == 64 for _, sha256 in source.downloads)
