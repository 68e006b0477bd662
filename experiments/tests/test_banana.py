"""The banana experiment on generated crescents."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from actgp.cli import command_line
from actgp.demo.data import bananas
from actgp.training import Recipe
from actgp_experiments import banana
from actgp_experiments.datasets import Banana


def stand_in() -> Banana:
    (X, y), (X_test, y_test) = bananas(200, 0), bananas(500, 1)
    return Banana(2 + 3 * X.numpy(), y.numpy(), 2 + 3 * X_test.numpy(), y_test.numpy())


def test_the_command_compares_draws_and_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(banana, "load_banana", stand_in)
    monkeypatch.setattr(banana, "QUICK", Recipe(network_steps=150, num_steps=40, objective="elbo"))
    monkeypatch.setattr(banana, "NUM_INDUCING", 20)
    results = tmp_path / "results" / "banana.jsonl"
    arguments = ["run", "banana", "--quick", "--output", str(tmp_path / "figures"), "--results", str(results)]
    result = CliRunner().invoke(command_line(), arguments)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "figures" / "banana.png").stat().st_size > 10_000
    records = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(r["layers"], r["model"]) for r in records] == [
        (1, "network"),
        (1, "deep GP"),
        (3, "network"),
        (3, "deep GP"),
    ]
    for record in records:
        assert record["metrics"]["accuracy"] > 0.75
        assert 0 <= record["metrics"]["entropy_far"] <= 1
    surfaces = np.loadtxt(tmp_path / "figures" / "banana.csv", delimiter=",", skiprows=1)
    assert surfaces.shape == (81 * 81, 6)


def test_a_quick_pass_leaves_other_results_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(banana, "load_banana", stand_in)
    monkeypatch.setattr(banana, "QUICK", Recipe(network_steps=2, num_steps=1, objective="elbo"))
    monkeypatch.setattr(banana, "NUM_INDUCING", 4)
    result = CliRunner().invoke(command_line(), ["run", "banana", "--quick"])
    assert result.exit_code == 0, result.output
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["banana_quick.jsonl"]


def test_points_are_standardised_on_the_training_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(banana, "load_banana", stand_in)
    train, _ = banana.data()
    np.testing.assert_allclose(train.X.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(train.X.std(0, correction=0), 1, atol=1e-12)


def test_what_cannot_be_written_is_refused_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_now(*arguments: object) -> Banana:
        raise AssertionError("training has begun")

    monkeypatch.setattr(banana, "load_banana", not_now)
    file, others = tmp_path / "file", tmp_path / "uci.jsonl"
    file.touch()
    others.write_text('{"experiment": "uci"}\n')
    for arguments, text in (
        (["--output", str(file)], "File exists"),
        (
            ["--output", str(tmp_path), "--results", str(file / "x.jsonl")],
            "results must go to a file that can be written",
        ),
        (["--output", str(tmp_path), "--results", str(tmp_path)], "results must be a file, got the directory"),
        (["--output", str(tmp_path), "--results", str(others)], "results of banana must have a file of their own"),
    ):
        result = CliRunner().invoke(command_line(), ["run", "banana", "--quick", *arguments])
        assert result.exit_code == 2, result.output
        assert text in " ".join(result.output.replace("│", " ").split())
    assert others.read_text() == '{"experiment": "uci"}\n'
