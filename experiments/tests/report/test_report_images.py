"""Results on images in a report: read, averaged over seeds, drawn, and refused where they are something else."""

import json
from pathlib import Path
from typing import Any

import grid
import pytest

from actgp_experiments.report import write_report
from actgp_experiments.report.figures.reliability import pooled
from actgp_experiments.report.images import Bins, chosen, curve, read_images

ACCURACY = {"NN": 0.9, "ADGP": 0.8}


def bins(accuracy: float) -> dict[str, list[float]]:
    return {"counts": [0] * 14 + [100], "confidence": [0.0] * 14 + [0.95], "accuracy": [0.0] * 14 + [accuracy]}


def level(accuracy: float, number: int) -> dict[str, Any]:
    scores = {"accuracy": accuracy - 0.1 * number, "log_likelihood": -float(number), "ece": 0.02, "brier": 0.2}
    return {"level": number, **scores, "auroc": 0.5 + 0.1 * number, "reliability": bins(accuracy)}


def run(data: str, model: str, seed: int) -> dict[str, Any]:
    accuracy = ACCURACY[model] + 0.02 * seed
    shifts = ("rotation",) if data == "mnist" else ("brightness", "pixelate")
    metrics = {"accuracy": accuracy, "log_likelihood": -0.5, "ece": 0.01, "brier": 0.1}
    return {
        "experiment": "images",
        "data": data,
        "seed": seed,
        "model": model,
        "metrics": metrics | ({"auroc_foreign": 0.97} if data == "mnist" else {}),
        "shifts": {name: [level(accuracy, number) for number in range(3)] for name in shifts},
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    runs = [run(data, model, seed) for data in ("mnist", "cifar10") for model in ACCURACY for seed in (0, 1)]
    runs.insert(0, run("mnist", "NN", 0) | {"metrics": run("mnist", "NN", 0)["metrics"] | {"accuracy": 0.0}})
    return grid.write(tmp_path / "images.jsonl", runs)


def test_the_last_line_of_a_run_counts_and_seeds_are_averaged(path: Path) -> None:
    runs = read_images(path)
    assert len(runs) == 8
    own = chosen(runs, "mnist", "NN")
    assert [one.scores["accuracy"] for one in own] == [0.9, 0.92]
    found = curve(own, "rotation", "accuracy")
    assert list(found) == [0, 1, 2]
    assert found[1].mean == pytest.approx(0.81)
    assert found[1].sd == pytest.approx(0.01)


def test_bins_are_pooled_by_their_counts() -> None:
    few, many = Bins((0.0, 30.0), (0.0, 27.0), (0.0, 30.0)), Bins((10.0, 90.0), (4.0, 81.0), (1.0, 60.0))
    confidence, accuracy, count = pooled([few, many])
    assert confidence.tolist() == [0.9]  # the first bin has too few
    assert accuracy.tolist() == [0.75]
    assert count.tolist() == [120]


def test_a_report_shows_figures_and_tables_of_images(path: Path, tmp_path: Path) -> None:
    table = grid.write(tmp_path / "uci.jsonl", grid.records())
    markdown = tmp_path / "out" / "report.md"
    written = write_report(table, tmp_path / "out" / "report.html", markdown, images=path)
    assert {"report_shifts.png", "report_reliability.png"} <= {file.name for file in written}
    text = markdown.read_text()
    for wanted in ("Images under shift", "mnist: test images", "cifar10: mean over the levels of pixelate", "0.970 ±"):
        assert wanted in text
    rows = (tmp_path / "out" / "report_shifts.csv").read_text().splitlines()[1:]
    assert len(rows) == 3 * 2 * 3 * 2  # shifts, models, levels, scores


def test_other_results_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text(json.dumps(run("mnist", "NN", 0) | {"experiment": "banana"}))
    with pytest.raises(
        ValueError, match="the experiment must be 'images', got 'banana'; pass the file that `actgp run"
    ):
        read_images(file)
    file.write_text(json.dumps(run("mnist", "NN", 0) | {"shifts": {"rotation": 3}}))
    with pytest.raises(ValueError, match="'rotation' must be a list of objects, got 3; mend or remove the line"):
        read_images(file)
    for levels in ([], [level(0.9, 0)]):
        file.write_text(json.dumps(run("mnist", "NN", 0) | {"shifts": {"rotation": levels}}))
        with pytest.raises(ValueError, match=r"'rotation' must have a level above 0, got \[.*\]; mend or remove"):
            read_images(file)
    grid.write(file, [run("mnist", "NN", 0), run("mnist", "NN", 1) | {"shifts": {}}])
    with pytest.raises(
        ValueError, match=r"line 2: the shifts of mnist must be the same in all lines, .*, got \[\]; mend"
    ):
        read_images(file)


def test_runs_that_failed_are_said_to_have(tmp_path: Path) -> None:
    broken = run("mnist", "NN", 0)
    broken["metrics"]["log_likelihood"] = None
    broken["shifts"]["rotation"][1]["log_likelihood"] = float("nan")
    path = grid.write(tmp_path / "images.jsonl", [broken, run("mnist", "NN", 1), run("mnist", "ADGP", 0)])
    results = grid.write(tmp_path / "uci.jsonl", grid.records())
    markdown = tmp_path / "report.md"
    write_report(results, tmp_path / "index.html", markdown, images=path)
    assert markdown.read_text().count("| failed |") == 2  # on test images and under shift
