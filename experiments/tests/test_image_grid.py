"""The experiment with images, on generated ones: architectures, contestants, durable and resumable cells."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from actgp.cli import command_line
from actgp_experiments import images as experiment
from actgp_experiments.datasets import Images
from actgp_experiments.images import CONTESTANTS, Cell, ImageSettings, grid_cells, missing, run_cell, run_grid
from actgp_experiments.images import cells as cells_module
from actgp_experiments.images.architectures import build_backbone, build_head, count_features
from actgp_experiments.images.contestants import Hybrid, PlainNetwork
from actgp_experiments.images.networks import Networks, logits
from actgp_experiments.store import Store

TINY = ImageSettings(
    units=8,
    network_steps=12,
    head_steps=10,
    posterior_steps=5,
    batch_size=20,
    members=2,
    samples=3,
    train_images=60,
    test_images=20,
)


def stand_in(name: str) -> Images:
    channels, side = (3, 8) if name == "cifar10" else (1, 16)
    g = torch.Generator().manual_seed(len(name))
    y = torch.randint(3, (110,), generator=g)
    X = torch.rand(110, channels, side, side, generator=g) * 0.3
    X[torch.arange(110), :, y] += 0.7  # a bright row that tells the class
    return Images(name, X[:80], y[:80], X[80:], y[80:], 3)


@pytest.fixture(autouse=True)
def generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells_module, "load_images", stand_in)


def networks(folder: Path) -> Networks:
    return Networks(cells_module.some_images("mnist", TINY), TINY, folder)


def test_the_papers_convolutions_give_1024_features() -> None:
    assert count_features(build_backbone(1), (1, 28, 28)) == 1024
    assert count_features(build_backbone(3), (3, 32, 32)) == 64
    dense = [module for module in build_head(1024, 128, 10) if isinstance(module, torch.nn.Linear)]
    assert [layer.out_features for layer in dense] == [128, 10, 128, 10]


@pytest.mark.parametrize("model", CONTESTANTS)
def test_every_contestant_gives_a_record(model: str, tmp_path: Path) -> None:
    record = run_cell(Cell("mnist", 0, model), TINY, tmp_path)
    assert json.loads(json.dumps(record)) == record
    assert {"accuracy", "log_likelihood", "ece", "brier", "auroc_foreign"} <= record["metrics"].keys()
    assert [row["level"] for row in record["shifts"]["rotation"]] == list(range(0, 181, 15))
    assert record["shifts"]["rotation"][0]["log_likelihood"] == record["metrics"]["log_likelihood"]
    assert record["shifts"]["rotation"][0]["auroc"] == pytest.approx(0.5)
    assert sum(record["reliability"]["counts"]) == record["rows"]["test"] == 20


def test_colour_images_are_corrupted_in_four_ways(tmp_path: Path) -> None:
    record = run_cell(Cell("cifar10", 0, "NN"), TINY, tmp_path)
    assert set(record["shifts"]) == {"gaussian_noise", "motion_blur", "brightness", "pixelate"}
    assert all([row["level"] for row in rows] == list(range(6)) for rows in record["shifts"].values())
    assert "auroc_foreign" not in record["metrics"]


def test_a_network_is_trained_once_and_shared(tmp_path: Path) -> None:
    X = stand_in("mnist").X_test
    first = networks(tmp_path).trained(0)
    kept = list(tmp_path.iterdir())
    again = networks(tmp_path).trained(0)
    assert list(tmp_path.iterdir()) == kept
    assert torch.equal(logits(first, X), logits(again, X))
    assert not torch.equal(logits(networks(tmp_path).trained(1), X), logits(first, X))


def test_a_temperature_leaves_the_classes_as_they_are(tmp_path: Path) -> None:
    X = stand_in("mnist").X_test
    plain, scaled = (PlainNetwork(networks(tmp_path), 0, scaled=scaled) for scaled in (False, True))
    for model in (plain, scaled):
        model.fit()
    assert scaled.temperature != 1.0
    assert torch.equal(plain.probabilities(X).argmax(1), scaled.probabilities(X).argmax(1))


def test_the_hybrid_has_the_networks_own_convolutions(tmp_path: Path) -> None:
    hybrid = Hybrid(networks(tmp_path), 0)
    hybrid.fit()
    own = networks(tmp_path).trained(0)[0].state_dict()
    kept = hybrid.model.backbone[0].state_dict()
    assert all(torch.equal(kept[name], values) for name, values in own.items())


def test_results_are_stored_as_they_come_and_a_rerun_does_what_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path / "images.jsonl")
    wanted = grid_cells(["mnist"], ["NN+TS", "NN"], 2)
    assert [cell.model for cell in wanted] == ["NN", "NN", "NN+TS", "NN+TS"]
    running = run_grid(wanted, store, TINY, jobs=1)
    next(running)
    running.close()
    left = missing(wanted, store, TINY)
    assert len(left) == 3
    list(run_grid(left, store, TINY, jobs=1))
    assert missing(wanted, store, TINY) == []
    with pytest.raises(ValueError, match="results in one file must have the same configuration, got another one in"):
        missing(wanted, store, ImageSettings())


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="a model must be one of NN, .*, got MLP; choose among those"):
        grid_cells(["mnist"], ["MLP"], 1)
    with pytest.raises(ValueError, match="a data set must be one of mnist, .*, got imagenet; choose among those"):
        grid_cells(["imagenet"], ["NN"], 1)


def test_the_command_runs_and_says_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(experiment.SETTINGS, "quick", TINY)
    path = tmp_path / "images.jsonl"
    arguments = ["run", "images", "--dataset", "mnist", "--model", "NN", "--quick", "--jobs", "1"]
    result = CliRunner().invoke(command_line(), [*arguments, "--results", str(path)])
    assert result.exit_code == 0, result.output
    assert "mnist 0 NN: accuracy" in result.output
    assert len(path.read_text().splitlines()) == 1
    again = CliRunner().invoke(command_line(), [*arguments, "--results", str(path)])
    assert "1 cells, 1 of them done" in again.output
