"""Tables in every dialect give the same frame; what cannot be read says why."""

import gzip
import io
import sys
from pathlib import Path

import pandas as pd
import pytest

from actgp.tabular import chunks, read_table
from actgp.tabular.dialect import dialect_of
from actgp.tabular.reading import STDIN

TABLE = pd.DataFrame({"name": ["Zoë", "Bjørn", "Ana", "Li"], "size": [1234.5, 0.25, -3.5, None], "n": [1, 2, 3, 4]})


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_every_dialect_gives_the_same_table(separator: str, encoding: str, tmp_path: Path) -> None:
    path, decimal = tmp_path / "table.txt", "." if separator == "," else ","
    TABLE.to_csv(path, sep=separator, decimal=decimal, encoding=encoding, index=False)
    reading = read_table(path)
    pd.testing.assert_frame_equal(reading.frame, TABLE, check_dtype=False)
    found = dialect_of(path)
    assert (found.separator, found.decimal, found.encoding) == (separator, decimal, encoding)
    usual = (separator, encoding) in ((",", "utf-8"), (",", "utf-8-sig"))
    assert len(reading.notes) == (0 if usual else 1)
    (part,) = chunks(path, ["name"])
    pd.testing.assert_frame_equal(part, TABLE, check_dtype=False)


def test_points_between_thousands(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1.234,5;1\n12.000,25;2\n3,5;3\n")
    assert read_table(tmp_path / "a.csv").frame["a"].tolist() == [1234.5, 12000.25, 3.5]


def test_decimal_commas_are_no_separators(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1,5;2,5\n3,5;4,5\n")
    assert read_table(tmp_path / "a.csv").frame.to_numpy().tolist() == [[1.5, 2.5], [3.5, 4.5]]


def test_one_column_has_no_separator(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1.5\n2.5\n")
    assert read_table(tmp_path / "a.csv").frame["a"].tolist() == [1.5, 2.5]


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_binary_files_are_known_by_how_they_begin(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "table.data"
    (TABLE.to_parquet if suffix == ".parquet" else TABLE.to_feather)(path)
    pd.testing.assert_frame_equal(read_table(path).frame, TABLE, check_dtype=False)
    pd.testing.assert_frame_equal(pd.concat(chunks(path, [])), TABLE, check_dtype=False)


def test_zipped_text_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TABLE.to_csv(index=False).encode()
    (tmp_path / "table.csv.gz").write_bytes(gzip.compress(text))
    pd.testing.assert_frame_equal(read_table(tmp_path / "table.csv.gz").frame, TABLE, check_dtype=False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    pd.testing.assert_frame_equal(read_table(STDIN).frame, TABLE, check_dtype=False)


def test_a_letter_that_is_no_utf8_far_down(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(b"word,n\n" + b"plain,1\n" * 20_000 + "naïve,2\n".encode("cp1252"))
    assert read_table(path).frame["word"].iloc[-1] == "naïve"
    assert list(chunks(path, ["word"]))[-1]["word"].iloc[-1] == "naïve"


def test_names_that_stand_twice_and_numbers_of_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",a,a,b\n0,1,2,3\n1,4,5,6\n2,7,8,9\n")
    reading = read_table(tmp_path / "a.csv")
    assert reading.frame.columns.tolist() == ["a", "a.1", "b"]
    assert reading.notes == (
        [
            "the name 'a' stands 2 times: the others are 'a.1' and so on",
            "the first column has no name and numbers the rows: left out",
        ]
    )


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["31.12.2020", "01.02.2021"], "%d.%m.%Y"),
        (["12/31/2020", "02/01/2021"], "%m/%d/%Y"),
        (["31/12/2020", "01/02/2021"], "%d/%m/%Y"),
        (["01.02.2021 12:30", None], "%d.%m.%Y %H:%M"),
        (["1.2.3", "4.5.6"], None),
        (["red", "blue"], None),
    ],
)
def test_dates_in_text(words: list[str | None], found: str | None, tmp_path: Path) -> None:
    pd.DataFrame({"when": words, "n": range(len(words))}).to_csv(tmp_path / "a.csv", index=False)
    reading = read_table(tmp_path / "a.csv")
    assert [each.format for each in reading.dates] == ([] if found is None else [found])
    assert pd.api.types.is_datetime64_any_dtype(reading.frame["when"].dtype) == (found is not None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a table must have a line with the names of its columns, got an empty file"),
        ("a,b\n", "a table must have rows below the names of its columns, got none"),
    ],
)
def test_files_without_a_table_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "a.csv")


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="FILE must be a file with a table, got a directory at"):
        read_table(tmp_path)
    with pytest.raises(FileNotFoundError, match="got nothing at .*; check the path"):
        read_table(tmp_path / "nowhere.csv")
