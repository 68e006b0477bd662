"""Files of results: claimed before anything runs, mended where a line was cut off, refused where they are others'."""

from pathlib import Path

import pytest

from actgp_experiments.store import Store, run_cells

RECORD = {"data": "energy", "configuration": {}}


def cell(name: str) -> dict[str, object]:
    raise AssertionError(f"{name} was run")


@pytest.mark.parametrize("line", ["hello", "[1]", "3", "\ufeff{}"])
def test_lines_of_another_kind_are_refused(tmp_path: Path, line: str) -> None:
    store = Store(tmp_path / "notes.txt")
    store.append(RECORD)
    with store.path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    with pytest.raises(ValueError, match=r"notes.txt, line 2: a line of results must be a JSON object, .*another file"):
        store.records()


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="line 1: a line of results must be a JSON object"):
        Store(tmp_path / "image.png").records()


def test_records_without_a_configuration_are_of_another_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "other.jsonl")
    store.append({"a": 1})
    with pytest.raises(ValueError, match="must have the same configuration, got another one"):
        store.records_of({})


def test_what_was_cut_off_is_removed_and_whole_lines_stay(tmp_path: Path) -> None:
    store = Store(tmp_path / "uci.jsonl")
    for _ in range(2):
        store.append(RECORD)
    whole = store.path.read_bytes()
    store.path.write_bytes(whole[:-10])
    assert store.records() == [RECORD]
    store.claim()
    assert store.path.read_bytes() == whole[: len(whole) // 2]
    store.path.write_bytes(whole[:-1])  # all but the end of the line
    store.claim()
    store.append(RECORD)
    assert store.records() == [RECORD] * 3


def test_nothing_runs_if_its_result_could_not_be_stored(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "uci.jsonl"):
        with pytest.raises(OSError, match="results must go to a file that can be written, got .*; choose another one"):
            list(run_cells(cell, ["a"], Store(path), jobs=1))
    with pytest.raises(IsADirectoryError, match="results must be a file, got the directory .*; add a file name"):
        Store(tmp_path).records()
