"""Ranks, winners and pairs, against what can be counted by hand."""

from math import inf
from pathlib import Path

import grid
import pytest

from actgp_experiments.report import ranks
from actgp_experiments.report.records import Results, read_results

EVERYTHING = ranks.Grid(("ADGP, ours", "SVGP", "linear", "network"), ("small", "middle", "large"))


def read(folder: Path, lines: list[grid.Record]) -> Results:
    return read_results(grid.write(folder / "results.jsonl", lines))


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return read(tmp_path, grid.records())


def test_equal_values_share_their_places() -> None:
    assert ranks.ranks({"a": 2.0, "b": 1.0, "c": 2.0, "d": 3.0}) == {"a": 2.5, "b": 1, "c": 2.5, "d": 4}
    assert ranks.ranks({"a": inf, "b": 0.0, "c": inf}) == {"a": 2.5, "b": 1, "c": 2.5}


def test_ranks_on_each_data_set(results: Results) -> None:
    expected = {
        "small": {"ADGP, ours": 1, "network": 2, "SVGP": 3, "linear": 4},
        "middle": {"ADGP, ours": 2, "network": 1, "SVGP": 3, "linear": 4},
        "large": {"ADGP, ours": 1, "network": 2, "SVGP": 3.5, "linear": 3.5},
    }
    for data, places in expected.items():
        assert ranks.ranks(ranks.medians(results, "nlpd", data)) == places


def test_average_ranks(results: Results) -> None:
    assert ranks.largest_grid(results) == EVERYTHING == ranks.common_grid(results)
    nlpd = {"ADGP, ours": 4 / 3, "network": 5 / 3, "SVGP": 9.5 / 3, "linear": 11.5 / 3}
    assert ranks.average_ranks(results, "nlpd", EVERYTHING) == pytest.approx(nlpd)
    assert ranks.average_ranks(results, "rmse", EVERYTHING) == pytest.approx(nlpd)
    assert ranks.average_ranks(results, "crps", EVERYTHING) == pytest.approx({m: 5 - r for m, r in nlpd.items()})
    assert ranks.order(results) == ["ADGP, ours", "network", "SVGP", "linear"]


def test_winners(results: Results) -> None:
    assert [ranks.winners(results, "nlpd", data) for data in results.data_sets] == [
        ["ADGP, ours"],
        ["network"],
        ["ADGP, ours"],
    ]
    assert ranks.winners(results, "crps", "large") == ["SVGP", "linear"]


def test_pairs(results: Results) -> None:
    assert ranks.wins(results, "nlpd", "ADGP, ours", "network") == (2, 3)
    assert ranks.wins(results, "nlpd", "network", "ADGP, ours") == (1, 3)
    assert ranks.wins(results, "nlpd", "SVGP", "linear") == (2, 3)  # equal on the third
    assert ranks.wins(results, "nlpd", "linear", "SVGP") == (0, 3)


def test_a_model_without_all_splits_is_not_ranked(tmp_path: Path) -> None:
    results = read(tmp_path, grid.without("ADGP, ours", "small", [2]))
    assert ranks.ranks(ranks.medians(results, "nlpd", "small")) == {"network": 1, "SVGP": 2, "linear": 3}
    assert ranks.winners(results, "nlpd", "small") == ["network"]
    assert ranks.wins(results, "nlpd", "ADGP, ours", "network") == (1, 2)


def test_a_model_that_lacks_data_sets_is_left_out_of_the_average(tmp_path: Path) -> None:
    lines = [r for r in grid.without("SVGP", "large") if (r["model"], r["data"]) != ("SVGP", "middle")]
    results = read(tmp_path, lines)
    # 3 models × 3 data sets are more than 4 × 1
    assert ranks.largest_grid(results) == ranks.Grid(("ADGP, ours", "linear", "network"), EVERYTHING.data_sets)
    assert ranks.common_grid(results) == ranks.Grid(EVERYTHING.models, ("small",))
    average = ranks.average_ranks(results, "nlpd", ranks.largest_grid(results))
    assert average == pytest.approx({"ADGP, ours": 4 / 3, "network": 5 / 3, "linear": 3})
    assert ranks.order(results) == ["ADGP, ours", "network", "linear", "SVGP"]


def test_of_grids_of_equal_size_that_with_more_data_sets_counts(tmp_path: Path) -> None:
    lines = [r for r in grid.without("SVGP", "middle") if (r["model"], r["data"]) != ("linear", "large")]
    assert ranks.largest_grid(read(tmp_path, lines)) == ranks.Grid(("ADGP, ours", "network"), EVERYTHING.data_sets)


def test_a_model_alone_is_no_comparison(tmp_path: Path) -> None:
    lines = [r for r in grid.records() if r["model"] == "SVGP" or (r["model"], r["data"]) == ("linear", "small")]
    assert ranks.largest_grid(read(tmp_path, lines)) == ranks.Grid(("SVGP", "linear"), ("small",))


def test_a_data_set_that_has_just_begun_is_left_out_of_the_average(tmp_path: Path) -> None:
    lines = [r for r in grid.records() if r["data"] != "large" or r["model"] == "linear"]
    results = read(tmp_path, lines)
    assert ranks.largest_grid(results) == ranks.Grid(EVERYTHING.models, ("small", "middle"))


def test_nobody_may_be_complete(tmp_path: Path) -> None:
    results = read(tmp_path, [grid.cell("small", "SVGP", 0), grid.cell("small", "network", 1)])
    empty = ranks.largest_grid(results)
    assert empty == ranks.Grid((), ())
    assert ranks.average_ranks(results, "nlpd", empty) == {}
    assert ranks.winners(results, "nlpd", "small") == []
    assert ranks.order(results) == ["SVGP", "network"]


def test_nobody_wins_where_all_have_failed(tmp_path: Path) -> None:
    lines = grid.records()
    for line in lines:
        line["metrics"]["nlpd"] = None
    results = read(tmp_path, lines)
    assert ranks.winners(results, "nlpd", "small") == []
    assert ranks.wins(results, "nlpd", "SVGP", "linear") == (0, 3)
