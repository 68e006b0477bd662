"""Stored results as they are found: unfinished, repeated, cut off, failed, or of another kind."""

import copy
import re
from math import inf, nan
from pathlib import Path
from typing import Any

import grid
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actgp_experiments.report.banana import read_banana
from actgp_experiments.report.lines import read_lines
from actgp_experiments.report.records import Results, quantile, read_results


def read(folder: Path, lines: list[grid.Record], end: str = "") -> Results:
    return read_results(grid.write(folder / "results.jsonl", lines, end))


def test_medians_and_quartiles(tmp_path: Path) -> None:
    results = read(tmp_path, grid.records())
    assert results.models == ["ADGP, ours", "SVGP", "linear", "network"]
    assert results.data_sets == ["small", "middle", "large"]  # by size
    assert results.size("large") == (1_000, 4)
    summary = results.summary("small", "ADGP, ours", "nlpd")
    assert summary is not None
    assert (summary.lower, summary.median, summary.upper) == pytest.approx((-0.9, -0.8, -0.7))
    assert summary.count == 5
    assert results.train_seconds("network", ["small", "middle"]).median == pytest.approx(15.0)  # 5 of 10, 5 of 20
    assert all(results.complete(data, model) for data in grid.SIZES for model in grid.NLPDS)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12), st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], level: float) -> None:
    assert quantile(values, level) == pytest.approx(float(np.quantile(values, level)), rel=1e-9, abs=1e-6)


def test_quantiles_with_failures_are_never_undefined() -> None:
    assert quantile([1, 2, inf, 0, inf], 0.5) == 2
    assert quantile([1, 2, inf, inf], 0.5) == inf
    assert quantile([inf, inf], 0.25) == inf


def test_missing_cells(tmp_path: Path) -> None:
    lines = [r for r in grid.without("SVGP", "middle", [1, 4]) if (r["model"], r["data"]) != ("linear", "large")]
    results = read(tmp_path, lines)
    partial = results.summary("middle", "SVGP", "nlpd")
    assert partial is not None
    assert (partial.median, partial.count) == (pytest.approx(1.1), 3)  # offsets 0, 0.1, 0.3
    assert not results.complete("middle", "SVGP")
    assert results.summary("large", "linear", "nlpd") is None
    assert not results.complete("large", "linear")
    assert results.complete("middle", "linear")


def test_of_lines_for_the_same_cell_the_last_one_counts(tmp_path: Path) -> None:
    lines = grid.records()
    again = copy.deepcopy(lines[0])
    again["metrics"]["nlpd"], again["seed"] = -7.0, 99
    results = read(tmp_path, [*lines, again])
    assert len(results.cells) == len(lines)
    assert results.cells["small", "ADGP, ours", 0].metrics["nlpd"] == -7.0


@pytest.mark.parametrize("end", ['{"experiment": "uci", "da', '{"model": "Mat\udcc3', "\n\n", '{"a": 1\n'])
def test_a_last_line_cut_in_half_is_left_out(tmp_path: Path, end: str) -> None:
    path = grid.write(tmp_path / "results.jsonl", grid.records())
    path.write_bytes(path.read_bytes() + end.encode("utf-8", errors="surrogateescape"))
    assert len(read_results(path).cells) == 60


@pytest.mark.parametrize("value", [None, nan, inf, -inf])
def test_failed_runs_are_infinitely_bad(tmp_path: Path, value: float | None) -> None:
    lines = grid.records()
    for line in lines[:3]:  # of five splits
        line["metrics"]["nlpd"] = value
    summary = read(tmp_path, lines).summary("small", "ADGP, ours", "nlpd")
    assert summary is not None
    assert (summary.median, summary.upper) == (inf, inf)


def changed(name: str, value: Any) -> grid.Record:
    line = grid.records()[0]
    *outer, last = name.split(".")
    inner = line
    for part in outer:
        inner = inner[part]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return line


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model", "", "results.jsonl, line 61: 'model' must be a name, got ''; mend or remove"),
        ("data", 3, "'data' must be a name, got 3; mend"),
        ("split", -1, "'split' must be a whole number from 0, got -1; mend"),
        ("split", True, "'split' must be a whole number from 0, got True; mend"),
        ("metrics", [1], "'metrics' must be an object, got [1]; mend"),
        ("metrics.nlpd", "low", "line 61, 'metrics': 'nlpd' must be a number, got 'low'; mend"),
        ("metrics.crps", ..., "'metrics': there must be a field 'crps', got the fields ['coverage_95', "),
        ("pit", [1, 2], "'pit' must be a list of 20 counts, got [1, 2]; mend"),
        ("pit", [-1] * 20, "'pit' must be a list of 20 counts, got [-1, "),
        ("rows.test", ..., "'rows': there must be a field 'test', got the fields ['train']; mend"),
        ("seconds", ..., "there must be a field 'seconds', got the fields ['configuration', "),
        ("experiment", "banana", "must hold the results of one experiment, got ['banana', 'uci']; write each to"),
    ],
)
def test_other_lines_are_refused_by_name(tmp_path: Path, name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read(tmp_path, [*grid.records(), changed(name, value)])


@pytest.mark.parametrize("text", ["", "\n\n", '{"experiment": "u'])
def test_a_file_without_results_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "empty.jsonl").write_text(text)
    message = "empty.jsonl must hold at least one complete JSON line, got none; run the experiment first"
    with pytest.raises(ValueError, match=message):
        read_results(tmp_path / "empty.jsonl")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'model,nlpd\nSVGP,0.3\n{"a": 1}\n',
            "line 1: a line must be one JSON object, got 'model,nlpd'; remove the line and",
        ),
        ("[1]\n{}\n", re.escape("line 1: a line must be one JSON object, got '[1]'; remove the line")),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "other.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_lines(tmp_path / "other.csv")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="must be a file of JSON lines, got '.*none.jsonl', which is not there"):
        read_results(tmp_path / "none.jsonl")


def test_banana_results_over_seeds(tmp_path: Path) -> None:
    lines = grid.banana_records()
    again = copy.deepcopy(lines[0])
    again["metrics"]["accuracy"] = 0.5
    kinds = read_banana(grid.write(tmp_path / "banana.jsonl", [*lines, again]))
    assert [(kind.layers, kind.model) for kind in kinds] == [(n, m) for n in (1, 3) for m in ("network", "deep GP")]
    assert kinds[0].scores["accuracy"].median == pytest.approx(0.91)
    assert kinds[2].scores["accuracy"].lower == pytest.approx((0.5 + 0.91) / 2)
    assert kinds[2].scores["accuracy"].count == 3


def test_other_results_are_not_banana_results(tmp_path: Path) -> None:
    lines = grid.banana_records()
    lines[0]["experiment"] = "uci"
    message = "banana.jsonl, line 1: the experiment must be 'banana', got 'uci'; pass the file with the banana results"
    with pytest.raises(ValueError, match=message):
        read_banana(grid.write(tmp_path / "banana.jsonl", lines))
