import io
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from standins import Server, contents, lines

from actgp_experiments import datasets
from actgp_experiments.datasets import formats
from actgp_experiments.datasets.fingerprint import digest
from actgp_experiments.datasets.sources import SOURCES, Source


def test_a_download_is_kept_and_used_again(yacht: Source, server: Server, cache: Path) -> None:
    first = datasets.load_regression("yacht")
    second = datasets.load_regression("yacht")
    assert server.requests == 1
    assert contents(cache) == ["uci/yacht.npz"]
    assert lines(np.column_stack([first.X, first.y])) == server.body
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    assert (first.name, first.target_name, first.feature_names) == ("yacht", yacht.target, yacht.features)
    assert first.X.dtype == first.y.dtype == np.float64


def test_the_cache_is_a_folder_of_data(yacht: Source, server: Server, cache: Path) -> None:
    first = datasets.load_regression("yacht")
    second = datasets.load_regression("yacht", folder=cache)
    np.testing.assert_array_equal(first.X, second.X)


def test_columns_after_the_target_are_ignored(yacht: Source, server: Server) -> None:
    table = np.loadtxt(io.BytesIO(server.body))
    server.body = lines(np.column_stack([table, table[:, 0]]))
    np.testing.assert_array_equal(datasets.load_regression("yacht").y, table[:, 6])


def test_the_order_of_rows_does_not_matter(yacht: Source, server: Server) -> None:
    table = np.loadtxt(io.BytesIO(server.body))[::-1]
    server.body = lines(table)
    np.testing.assert_array_equal(datasets.load_regression("yacht").X, table[:, :6])


def other_numbers(server: Server) -> None:
    server.body = server.body.replace(b"1", b"2", 1)


def rows_missing(server: Server) -> None:
    server.body = server.body[: len(server.body) // 2].rpartition(b"\n")[0]


def columns_missing(server: Server) -> None:
    server.body = lines(np.loadtxt(io.BytesIO(server.body))[:, :5])


def page_instead(server: Server) -> None:
    server.body = b"<html>Please log in</html>"


def nothing(server: Server) -> None:
    server.body = b""


def cut(server: Server) -> None:
    server.missing = 1000


def not_found(server: Server) -> None:
    server.status = 404


def fault_of_server(server: Server) -> None:
    server.status = 500


@pytest.mark.parametrize(
    ("harm", "match"),
    [
        (other_numbers, "must hold 40 rows of 6 inputs and a target with digest .*, got other numbers, with digest"),
        (rows_missing, r"got \d+ rows of 7 columns; nothing of it was kept: try again later, or point ACTGP_DATA at"),
        (columns_missing, "got 40 rows of 5 columns"),
        (page_instead, "got 26 bytes that are no such thing"),
        (nothing, "text must hold numbers, got none; download it again"),
        (cut, "yacht/data/data.txt failed with IncompleteRead .* connect to the internet, or point ACTGP_DATA at a"),
        (not_found, "failed with HTTPError .*404.* folder with uci/yacht.npz"),
        (fault_of_server, "failed with HTTPError .*500"),
    ],
)
def test_a_bad_download_leaves_nothing(
    yacht: Source, server: Server, cache: Path, harm: Callable[[Server], None], match: str
) -> None:
    good = replace(server)
    harm(server)
    with pytest.raises(datasets.DatasetUnavailable, match=match):
        datasets.load_regression("yacht")
    assert contents(cache.parent) == []
    server.body, server.status, server.missing = good.body, 200, 0
    assert len(datasets.load_regression("yacht").y) == 40
    assert contents(cache.parent) == ["cache/uci/yacht.npz"]


def test_without_network_both_ways_out_are_named(yacht: Source, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES, "yacht", replace(yacht, base="http://127.0.0.1:1"))
    with pytest.raises(
        datasets.DatasetUnavailable,
        match="yacht must be in a folder or come over the network, got neither: .* failed with URLError .*; connect to "
        "the internet, or point ACTGP_DATA at a folder with uci/yacht.npz",
    ):
        datasets.load_regression("yacht")
    assert contents(cache.parent) == []
    assert issubclass(datasets.DatasetUnavailable, OSError)


def test_a_cache_that_cannot_be_written(yacht: Source, cache: Path) -> None:
    cache.write_text("in the way")
    with pytest.raises(
        datasets.DatasetUnavailable, match="cache must be a folder that can be written, got .*; point ACTGP_CACHE at"
    ):
        datasets.load_regression("yacht")
    assert contents(cache.parent) == ["cache"]


def zipped(text: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("banana.all.txt", text)
    return buffer.getvalue()


def test_banana_comes_zipped(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5300, 2)).round(6), rng.integers(0, 2, size=5300)
    text = "".join(f"{2 * label - 1} 1:{a} 2:{b} \n" for (a, b), label in zip(X.tolist(), y.tolist(), strict=True))
    server.body = zipped(text.encode())
    changes = {"base": server.address, "digest": digest(np.column_stack([X, y]))}
    monkeypatch.setitem(SOURCES, "banana", replace(SOURCES["banana"], **changes))
    banana = datasets.load_banana()
    again = datasets.load_banana()
    assert server.requests == 1
    assert contents(cache) == ["banana_full.npz"]
    assert banana.X_train.shape == (400, 2)
    assert banana.X_test.shape == (4900, 2)
    assert banana.y_train.dtype == banana.y_test.dtype == np.int64
    np.testing.assert_array_equal(banana.X_train, again.X_train)
    rows = np.column_stack([np.vstack([banana.X_train, banana.X_test]), np.hstack([banana.y_train, banana.y_test])])
    assert digest(rows) == digest(np.column_stack([X, y]))


def test_damaged_archives_raise_what_is_caught() -> None:
    good = zipped(b"-1 1:0.5 2:0.25\n1 1:0.125 2:0\n" * 3)
    np.testing.assert_array_equal(formats.zipped_svmlight(good)[:2], [[0.5, 0.25, 0.0], [0.125, 0.0, 1.0]])
    for i in range(len(good)):
        for bad in (good[:i], good[:i] + bytes([good[i] ^ 255]) + good[i + 1 :]):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    formats.zipped_svmlight(bad)
            except formats.DAMAGES:
                pass
