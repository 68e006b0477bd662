from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from standins import Server, contents

from actgp_experiments import datasets
from actgp_experiments.datasets.fingerprint import digest
from actgp_experiments.datasets.sources import SOURCES, Source
from actgp_experiments.datasets.storage import cache_folder


@pytest.fixture
def folder(yacht: Source, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, with a yacht that the server does not have."""
    table = np.random.default_rng(1).normal(size=(9, 7))
    (tmp_path / "data" / "uci").mkdir(parents=True)
    np.savez(tmp_path / "data" / "uci" / "yacht.npz", X=table[:, :6], y=table[:, 6])
    monkeypatch.setitem(SOURCES, "yacht", replace(yacht, num_rows=9, digest=digest(table)))
    return tmp_path / "data"


def test_the_users_folder_comes_first(
    folder: Path, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACTGP_DATA", str(folder))
    assert datasets.load_regression("yacht").X.shape == (9, 6)
    assert server.requests == 0
    assert not cache.exists()


def test_what_the_users_folder_lacks_is_downloaded(
    yacht: Source, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACTGP_DATA", str(tmp_path))
    assert len(datasets.load_regression("yacht").y) == 40
    assert server.requests == 1
    assert contents(tmp_path) == ["cache/uci/yacht.npz"]


def test_a_folder_in_the_call(folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACTGP_DATA", "/nowhere")
    assert len(datasets.load_regression("yacht", folder=folder).y) == 9
    with pytest.raises(datasets.DatasetUnavailable, match=r"folder must hold uci/power.npz, got .*; put it there, or"):
        datasets.load_regression("power", folder=folder)
    with pytest.raises(datasets.DatasetUnavailable, match=r"folder must hold banana_full.npz, got"):
        datasets.load_banana(folder=folder)
    assert server.requests == 0


def test_folders_must_exist(yacht: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotADirectoryError, match="folder must be a folder that exists, got .*nowhere"):
        datasets.load_regression("yacht", folder=tmp_path / "nowhere")
    monkeypatch.setenv("ACTGP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(NotADirectoryError, match="ACTGP_DATA must be a folder that exists, got .*; check its spelling"):
        datasets.load_regression("yacht")


def test_constant_inputs_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).normal(size=(5, 17))
    (tmp_path / "uci").mkdir()
    np.savez(tmp_path / "uci" / "naval.npz", X=table[:, :16], y=table[:, 16])
    monkeypatch.setitem(SOURCES, "naval", replace(SOURCES["naval"], num_rows=5, digest=digest(table)))
    naval = datasets.load_regression("naval", folder=tmp_path)
    np.testing.assert_array_equal(naval.X, np.delete(table[:, :16], [8, 11], axis=1))
    assert len(naval.feature_names) == 14
    assert not {"T1", "P1"} & set(naval.feature_names)


def test_a_file_cut_short_or_changed_is_found_out(folder: Path) -> None:
    path = folder / "uci" / "yacht.npz"
    good = path.read_bytes()
    X = datasets.load_regression("yacht", folder=folder).X
    for i in range(len(good)):
        path.write_bytes(good[:i])
        with pytest.raises(
            ValueError, match=r"yacht.npz' must hold X and y of yacht, 9 rows of 6 inputs .*; delete it"
        ):
            datasets.load_regression("yacht", folder=folder)
        path.write_bytes(good[:i] + bytes([good[i] ^ 255]) + good[i + 1 :])
        try:
            np.testing.assert_array_equal(datasets.load_regression("yacht", folder=folder).X, X)
        except ValueError as error:
            assert "delete it, and it will be looked for elsewhere or downloaded" in str(error)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"X": np.zeros((9, 6))}, "got a file that cannot be read as such .*y is not a file in the archive"),
        ({"X": np.zeros((9, 6)), "y": np.zeros(8)}, "got a file that cannot be read as such"),
        ({"X": np.zeros((9, 6)), "y": np.zeros(9, dtype=complex)}, "got a file that cannot be read as such"),
        ({"X": np.zeros((9, 6)), "y": np.full(9, None)}, "cannot be loaded when allow_pickle=False"),
        ({"X": np.zeros((9, 5)), "y": np.zeros(9)}, "got 9 rows of 6 columns"),
        ({"X": np.zeros((8, 6)), "y": np.zeros(8)}, "got 8 rows of 7 columns"),
        ({"X": np.zeros((9, 6)), "y": np.zeros(9)}, "got other numbers, with digest"),
        ({"X": np.full((9, 6), np.nan), "y": np.zeros(9)}, "got other numbers, with digest"),
    ],
)
def test_a_wrong_file_is_found_out(folder: Path, arrays: dict[str, np.ndarray], match: str) -> None:
    np.savez(folder / "uci" / "yacht.npz", **arrays)
    with pytest.raises(ValueError, match=match):
        datasets.load_regression("yacht", folder=folder)


def test_a_single_array_is_no_archive(folder: Path) -> None:
    with (folder / "uci" / "yacht.npz").open("wb") as file:
        np.save(file, np.zeros((9, 7)))
    with pytest.raises(ValueError, match="got a file that cannot be read as such"):
        datasets.load_regression("yacht", folder=folder)


def test_a_damaged_cache_is_not_mended_in_silence(yacht: Source, server: Server, cache: Path) -> None:
    (cache / "uci").mkdir(parents=True)
    (cache / "uci" / "yacht.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match="delete it"):
        datasets.load_regression("yacht")
    (cache / "uci" / "yacht.npz").unlink()
    assert len(datasets.load_regression("yacht").y) == 40


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACTGP_CACHE", "/a")
    assert cache_folder() == Path("/a")
    monkeypatch.delenv("ACTGP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert cache_folder() == Path("/b/actgp")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "actgp"
