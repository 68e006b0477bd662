"""Every table goes from its file to a page; what trees are scored by is a density."""

import importlib
import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import actgp
from actgp.cli import command_line
from actgp.distil import distill
from actgp_experiments.ten_tables import CASES, markdown, run_case
from actgp_experiments.ten_tables.cases import write_case
from actgp_experiments.ten_tables.quantiles import LEVELS, log_density_between

ROWS = {"rare": 80, "passengers": 60}  # of which enough are of each class
FEW = 36


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Students that have hardly learnt anything, and no networks."""
    compact = importlib.import_module("actgp.tabular.compact")
    monkeypatch.setattr(compact, "distill", partial(distill, num_places=100, num_steps=5))
    monkeypatch.setattr(importlib.import_module("actgp.tables.table"), "FEWEST_FOR_NETWORKS", 100)


@pytest.mark.parametrize("name", list(CASES))
def test_from_the_file_to_the_page(name: str, tmp_path: Path) -> None:
    found = run_case(name, tmp_path, rows=ROWS.get(name, FEW), effort="fast", fast=name == "many")
    assert np.isfinite([found["nlpd"], found["nlpd_trees"]]).all()
    assert found["rows"] == ROWS.get(name, FEW)
    written = pd.read_csv(tmp_path / f"{name}_predicted.csv")
    assert len(written) == found["rows"]
    assert (tmp_path / f"{name}.html").stat().st_size > 600_000
    about = json.loads(actgp.load(tmp_path / f"{name}.actgp").page)
    assert (
        about["task"]
        == found["task"]
        == ("classification" if name in ("passengers", "rare", "latin") else "regression")
    )


def test_tables_are_as_they_are_called(tmp_path: Path) -> None:
    commas, _ = write_case("commas", tmp_path)
    assert commas.read_text().splitlines()[1].count(",") >= 3
    doubles, _ = write_case("doubles", tmp_path)
    assert doubles.read_text().splitlines()[0].split(",").count("bmi") == 3
    latin, _ = write_case("latin", tmp_path)
    assert "bösartig".encode("latin-1") in latin.read_bytes()
    price = write_case("homes", tmp_path)[1]
    assert pd.Series(price).skew() > 2  # a long tail
    signal = write_case("sensors", tmp_path)[1]
    assert 0.01 < np.mean(np.abs(signal) > 5) < 0.03
    assert np.mean(write_case("rare", tmp_path)[1]) < 0.05


def test_quantiles_make_a_density() -> None:
    """It integrates to one, and to the levels between quantiles."""
    quantiles = np.sort(np.random.default_rng(0).normal(size=len(LEVELS)))
    grid = np.linspace(-400, 400, 2_000_001)
    density = np.exp(log_density_between(np.tile(quantiles, (len(grid), 1)), grid, 1e-9))
    below = np.cumsum(density) * (grid[1] - grid[0])
    assert below[-1] == pytest.approx(1, abs=2e-3)
    np.testing.assert_allclose(np.interp(quantiles, grid, below), LEVELS, atol=2e-3)


def test_the_command_does_what_is_missing_or_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands, ran = importlib.import_module("actgp_experiments.commands"), []

    def run(name: str, folder: Path, **options: object) -> dict[str, object]:
        ran.append(name)
        found = {"table": name, "task": "regression", "rows": 5, "seed": 0, "nlpd": 1.0, "nlpd_trees": 2.0}
        return found | {"RMSE": 1.06, "RMSE_trees": 1.0, "coverage": 0.9, "coverage_trees": 0.8, "fit_cpu_seconds": 3.0}

    monkeypatch.setattr(commands.people, "run_case", run)
    results = tmp_path / "results.jsonl"
    command = ["run", "ten-tables", "-o", str(tmp_path), "--results", str(results), "--data", "wide"]
    for options, wanted in (([], 1), (["--data", "homes"], 2), (["--again"], 2), ([], 2)):
        assert CliRunner().invoke(command_line(), [*command, *options]).exit_code == 0
        assert len(ran) == wanted
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    results.write_text("".join(json.dumps(line | {"revision": "another"}) + "\n" for line in lines))
    for options, wanted in (([], 2), (["--again"], 3)):
        assert CliRunner().invoke(command_line(), [*command, *options]).exit_code == 0
        assert len(ran) == wanted
    shown = CliRunner().invoke(command_line(), [*command, "--table"]).output
    assert "| wide | 5 | 1.000 | 2.000 | 1.06 | 1 | 90.0% | 80.0% | 3 |" in shown
    assert shown == markdown(lines) + "\n"
    assert "NLPD better on 2 of 2, RMSE or accuracy within 5 % on 0." in shown


def test_the_command_refuses_other_tables(tmp_path: Path) -> None:
    given = ["run", "ten-tables", "--data", "other", "-o", str(tmp_path), "--results", str(tmp_path / "results.jsonl")]
    result = CliRunner().invoke(command_line(), given)
    assert result.exit_code == 2
    assert "--data must be one of passengers, homes" in " ".join(result.output.replace("│", " ").split())
