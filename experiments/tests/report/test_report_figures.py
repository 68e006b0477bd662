"""The figures of a report: looks that stay, coverages that are right, names that can be read."""

import csv
from itertools import combinations
from pathlib import Path

import grid
import numpy as np
import pytest

from actgp_experiments import plots
from actgp_experiments.report.figures import draw_all
from actgp_experiments.report.figures.calibration import LEVELS, coverage, coverages
from actgp_experiments.report.figures.labels import write_names
from actgp_experiments.report.looks import OTHER_COLOURS, OUR_COLOURS, looks
from actgp_experiments.report.ranks import order
from actgp_experiments.report.records import read_results


def test_looks_are_distinct_and_do_not_depend_on_the_order() -> None:
    models = [f"model {i}" for i in range(40)] + [f"ADGP {i}" for i in range(20)]
    look = looks(models)
    assert len(set(look.values())) == 60
    assert {look[model].colour for model in models[:40]} == set(OTHER_COLOURS)
    assert {look[model].colour for model in models[40:]} == set(OUR_COLOURS)
    assert looks(models[::-1]) == look
    assert looks(["ADGP", "network"])["ADGP"].colour == plots.VERMILION


def test_coverage_from_counts() -> None:
    np.testing.assert_allclose(coverage(np.full(20, 3.0)), LEVELS)
    extremes = np.zeros(20)
    extremes[[0, 19]] = 1, 3  # outside all intervals but the last
    np.testing.assert_allclose(coverage(extremes), [0] * 10 + [1])
    beta = np.random.default_rng(0).beta(2, 3, size=1_000)
    counts = np.histogram(beta, bins=20, range=(0, 1))[0].astype(float)
    np.testing.assert_allclose(coverage(counts), [(np.abs(beta - 0.5) < level / 2 + 1e-12).mean() for level in LEVELS])


def test_coverage_pools_splits(tmp_path: Path) -> None:
    lines = grid.records()
    lines[0]["pit"] = [100] + [0] * 19  # the first of five splits with 100 targets each
    for line in lines:
        if line["data"] == "large":
            line["pit"] = [0] * 20
    found = coverages(read_results(grid.write(tmp_path / "results.jsonl", lines)), "ADGP, ours")
    assert list(found) == ["small", "middle"]  # nothing was counted on the third
    np.testing.assert_allclose(found["small"], [*(0.8 * LEVELS[:-1]), 1.0])
    np.testing.assert_allclose(found["middle"], LEVELS)


@pytest.mark.parametrize("spread", [1.0, 0.05])
def test_names_cover_neither_each_other_nor_markers(spread: float) -> None:
    random = np.random.default_rng(1)
    points = {
        f"a model, version {i}": (float(np.exp(spread * random.normal())), 5 + spread * float(random.normal()))
        for i in range(14)
    }
    with plots.style():
        figure = plots.figure(7.4, 4.4)
        axes = figure.subplots()
        for point in points.values():
            axes.plot(*point, "o")
        axes.set(xscale="log", xlim=(0.05, 20), ylim=(0, 10))
        names = write_names(figure, axes, points, dict.fromkeys(points, plots.BLACK))
        figure.draw_without_rendering()
        boxes = {name.get_text(): name.get_window_extent() for name in names}
    assert set(boxes) == set(points)
    for one, other in combinations(boxes.values(), 2):
        assert not one.overlaps(other)
    for box in boxes.values():
        for point in points.values():
            assert not box.contains(*axes.transData.transform(point))


def test_figures_hold_the_numbers(tmp_path: Path) -> None:
    lines = grid.without("SVGP", "middle", [1, 4])
    for line in lines:
        if (line["model"], line["data"]) == ("network", "small"):
            line["metrics"]["nlpd"] = 1e4  # far off the scale
        if (line["model"], line["data"]) == ("linear", "small"):
            line["metrics"]["nlpd"] = None
        if line["model"] == "linear":
            line["seconds"]["train"] = 0
    results = read_results(grid.write(tmp_path / "results.jsonl", lines))
    pictures = draw_all(results, order(results), tmp_path / "new", "a_")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        f"a_{name}.{kind}" for name in ("scores", "calibration", "cost") for kind in ("png", "csv")
    }
    with pictures["scores"].path.with_suffix(".csv").open(encoding="utf-8") as file:
        rows = {(row["data"], row["metric"], row["model"]): row for row in csv.DictReader(file)}
    assert len(rows) == 3 * 2 * 4
    assert float(rows["small", "rmse", "ADGP, ours"]["upper_quartile"]) == pytest.approx(2.3)
    assert rows["middle", "nlpd", "SVGP"]["splits"] == "3"
    assert rows["small", "nlpd", "linear"]["median"] == "inf"
    with pictures["cost"].path.with_suffix(".csv").open(encoding="utf-8") as file:
        seconds = {row["model"]: float(row["train_seconds"]) for row in csv.DictReader(file)}
    assert seconds["network"] == pytest.approx(20.0)  # the middle one of 10, 20 and 100
    assert seconds["linear"] == 1e-3


def test_without_a_complete_model_there_is_no_picture_of_cost(tmp_path: Path) -> None:
    lines = [grid.cell("small", "SVGP", 0), grid.cell("small", "network", 1)]
    results = read_results(grid.write(tmp_path / "results.jsonl", lines))
    assert set(draw_all(results, order(results), tmp_path)) == {"scores", "calibration"}
