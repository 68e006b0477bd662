"""The eigenvalue tables: ours against the paper's digits and against quadrature, as data, CSV and text."""

import csv
import io
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from actgp_experiments.tables import (
    EVEN_DIMENSIONS,
    ODD_DIMENSIONS,
    EigenvalueTable,
    eigenvalue_tables,
    render_tables,
    write_tables,
)


@pytest.fixture(scope="module")
def tables() -> tuple[EigenvalueTable, EigenvalueTable]:
    return eigenvalue_tables()


def half_a_unit(value: float) -> float:
    """Half a unit in the third significant digit, which is how far rounding moves a value."""
    return 0.5 * 10.0 ** (int(f"{value:e}".split("e")[1]) - 2)


def test_tables_hold_every_level_and_dimension(tables: tuple[EigenvalueTable, EigenvalueTable]) -> None:
    everything = {(d, n) for d in (2, 3, 4, 5, 6, 7) for n in range(10)}
    for table in tables:
        assert len(table.rows) == 60
        assert {(row.dimension, row.level) for row in table.rows} == everything
        assert {row.dimension for row in table.rows if row.paper is not None} == set(ODD_DIMENSIONS)


def test_ours_agree_with_the_papers_printed_digits(tables: tuple[EigenvalueTable, EigenvalueTable]) -> None:
    for table in tables:
        for row in table.rows:
            if row.paper is not None and row.actgp != 0:
                assert abs(row.actgp - row.paper) <= half_a_unit(row.actgp) * (1 + 1e-9), (table.name, row)


def test_ours_are_exactly_zero_where_the_paper_has_round_off(tables: tuple[EigenvalueTable, EigenvalueTable]) -> None:
    for table in tables:
        for row in table.rows:
            odd = row.level in (3, 5, 7, 9)
            assert (row.actgp == 0) == odd, (table.name, row)
            if row.paper is not None:
                assert (abs(row.paper) < 1e-9) == odd, (table.name, row)


def test_double_precision_quadrature_agrees_with_ours(tables: tuple[EigenvalueTable, EigenvalueTable]) -> None:
    for table in tables:
        for row in table.rows:
            assert row.numerical == pytest.approx(row.actgp, rel=1e-9, abs=3e-15), (table.name, row)
        # It is double precision, not a copy: where the truth is zero, it shows its round-off.
        assert any(row.numerical != 0 for row in table.rows if row.actgp == 0)


def test_arc_cosine_eigenvalues_are_squares_of_relu_coefficients(
    tables: tuple[EigenvalueTable, EigenvalueTable],
) -> None:
    arc_cosine, relu = tables
    for kernel, activation in zip(arc_cosine.rows, relu.rows, strict=True):
        assert kernel.actgp == pytest.approx(2 * kernel.dimension * activation.actgp**2, rel=1e-12)


def test_csv_round_trip(tables: tuple[EigenvalueTable, EigenvalueTable], tmp_path: Path) -> None:
    paths = write_tables(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["eigenvalues_arc_cosine.csv", "eigenvalues_relu.csv"]
    for path, table in zip(paths, tables, strict=True):
        with path.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == ["level", "dimension", "numerical", "paper", "actgp"]
        read = tuple(
            (
                int(row["level"]),
                int(row["dimension"]),
                float(row["numerical"]),
                float(row["paper"]) if row["paper"] else None,
                float(row["actgp"]),
            )
            for row in rows
        )
        assert read == tuple(map(tuple, table.rows))  # to the last bit


def printed(tables: tuple[EigenvalueTable, EigenvalueTable], width: int) -> str:
    """What a terminal of that width shows, or a pipe."""
    console = Console(width=width, file=io.StringIO())
    for table in render_tables(tables):
        console.print(table, crop=False)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [20, 80, 120])
def test_rendered_tables_show_every_number_in_full(tables: tuple[EigenvalueTable, EigenvalueTable], width: int) -> None:
    text = printed(tables, width)
    assert "…" not in text  # nothing was cut off
    rows = [line.split() for line in text.splitlines() if line[:1].isdigit()]
    assert [row[0] for row in rows] == [str(n) for n in range(10)] * 6  # the column n
    shown = Counter(cell for row in rows for cell in row[1:])
    values = [value for table in tables for row in table.rows for value in row[2:] if value is not None]
    assert shown == Counter(f"{value:.3g}" for value in values)


def test_rendered_tables_fit_a_terminal_of_80_columns(tables: tuple[EigenvalueTable, EigenvalueTable]) -> None:
    text = printed(tables, 80)
    assert max(map(len, text.splitlines())) <= 80
    for d in ODD_DIMENSIONS + EVEN_DIMENSIONS:
        assert text.count(f"d = {d}") == 2
    headings = [line.split() for line in text.splitlines() if "numerical" in line]
    assert headings == [["n", "numerical", "actgp", "numerical", "paper", "actgp"]] * 6
    rows = [line.split() for line in text.splitlines() if line.startswith("3 ")]
    assert [row[5] for row in rows] == ["0"] * 6  # exact zeros, shown as 0
    assert [row[4] for row in rows[:3]] == ["-3.53e-17", "4.24e-17", "5.3e-17"]  # the paper's
