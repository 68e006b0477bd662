"""The experiment with images, on generated ones: networks, contestants, durable and resumable results."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from actgp.cli import command_line
from actgp_experiments import images as experiment
from actgp_experiments.datasets import Images
from actgp_experiments.images import (
    MODELS,
    Cell,
    ImageSettings,
    choices,
    grid_cells,
    missing,
    run_cells_of,
    run_choices,
    run_grid,
)
from actgp_experiments.images import cells as cells_module
from actgp_experiments.images.architectures import build_backbone, build_head, count_features
from actgp_experiments.images.bench import Bench, in_parts
from actgp_experiments.images.contestants import Hybrid, PlainNetwork, mutual_information, scaled_network
from actgp_experiments.images.networks import Networks
from actgp_experiments.images.recipes import NetworkRecipe
from actgp_experiments.metrics import class_scores
from actgp_experiments.store import Store

GREY = NetworkRecipe(units=8, epochs=2, batch_size=10, rate=0.05, translation=1)
TINY = ImageSettings(
    recipes={
        "mnist": GREY,
        "fashion_mnist": replace(GREY, flips=True),
        "cifar10": NetworkRecipe(units=None, epochs=1, batch_size=10, rate=0.1),
    },
    calibration=20,
    choice=10,
    members=2,
    samples=3,
    units=8,
    num_inducing=8,
    head_steps=10,
    posterior_steps=5,
    batch_size=20,
    variational_epochs=1,
    train_images=80,
    test_images=20,
    shifted_images=15,
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


def networks(folder: Path, settings: ImageSettings = TINY, name: str = "mnist") -> Networks:
    return Networks(cells_module.some_images(name, settings), settings, folder)


def test_the_papers_convolutions_give_1024_features() -> None:
    assert count_features(build_backbone(1), (1, 28, 28)) == 1024
    assert count_features(build_backbone(3), (3, 32, 32)) == 192
    dense = [module for module in build_head(1024, 128, 10) if isinstance(module, torch.nn.Linear)]
    assert [layer.out_features for layer in dense] == [128, 10, 128, 10]
    (only,) = build_head(192, None, 10)
    assert only.out_features == 10


def test_rows_are_used_once() -> None:
    rows = networks(Path()).rows(3)
    assert [len(part) for part in (rows.train, rows.calibration, rows.choice)] == [50, 20, 10]
    assert torch.cat([rows.train, rows.calibration, rows.choice]).sort().values.tolist() == list(range(80))


def test_all_contestants_give_records(tmp_path: Path) -> None:
    cells = grid_cells(["mnist"], MODELS, 1)
    records = run_cells_of(cells, TINY, tmp_path)
    assert [Cell(record["data"], record["seed"], record["model"]) for record in records] == cells
    y = stand_in("mnist").y_test[:20]
    for record in records:
        assert json.loads(json.dumps(record)) == record
        assert {"accuracy", "log_likelihood", "ece", "brier", "aurc", "auroc_foreign"} <= record["metrics"].keys()
        assert set(record["foreign"]) == {"fashion_mnist", "noise"}
        assert record["foreign"]["fashion_mnist"]["auroc"] == record["metrics"]["auroc_foreign"]
        levels = record["shifts"]["rotation"]
        assert [row["level"] for row in levels] == list(range(0, 181, 15))
        assert levels[0]["auroc"] == pytest.approx(0.5)
        assert sum(record["reliability"]["counts"]) == len(y)
        assert sum(levels[3]["reliability"]["counts"]) == 15
    told = {record["model"] for record in records if "auroc_foreign_epistemic" in record["metrics"]}
    assert told == set(MODELS) - {"NN", "NN+TS"}  # one network says nothing of itself


def test_an_ensemble_is_the_mixture_of_all_seeds(tmp_path: Path) -> None:
    (record,) = run_cells_of([Cell("mnist", 0, "NN Ensemble")], TINY, tmp_path)
    X, y = stand_in("mnist").X_test[:20], stand_in("mnist").y_test[:20]
    members = [networks(tmp_path).trained(seed) for seed in (0, 1)]
    p = torch.stack([in_parts(member, X).softmax(-1) for member in members]).mean(0)
    assert record["metrics"]["log_likelihood"] == pytest.approx(class_scores(p, y).metrics["log_likelihood"], rel=1e-5)


def test_colour_images_are_corrupted_in_four_ways(tmp_path: Path) -> None:
    (record,) = run_cells_of([Cell("cifar10", 0, "ADGP")], TINY, tmp_path)
    assert set(record["shifts"]) == {"gaussian_noise", "motion_blur", "brightness", "pixelate"}
    assert all([row["level"] for row in rows] == list(range(6)) for rows in record["shifts"].values())
    assert set(record["foreign"]) == {"noise"}


def test_a_network_is_trained_once_and_shared(tmp_path: Path) -> None:
    X = stand_in("mnist").X_test
    first = networks(tmp_path).trained(0)
    kept = list(tmp_path.iterdir())
    assert [path.suffix for path in kept] == [".network"]
    again = networks(tmp_path).trained(0)
    assert list(tmp_path.iterdir()) == kept
    assert torch.equal(in_parts(first, X), in_parts(again, X))
    assert not torch.equal(in_parts(networks(tmp_path).trained(1), X), in_parts(first, X))


def test_interrupted_training_goes_on_after_its_last_epoch(tmp_path: Path) -> None:
    def stop(epoch: int, loss: float) -> None:
        if epoch == 1:
            raise KeyboardInterrupt

    X = stand_in("fashion_mnist").X_test
    settings = replace(TINY, recipes=TINY.recipes | {"fashion_mnist": replace(GREY, epochs=3, flips=True)})
    whole = networks(tmp_path / "whole", settings, "fashion_mnist").trained(0, 0.2)
    with pytest.raises(KeyboardInterrupt):
        networks(tmp_path / "parts", settings, "fashion_mnist").trained(0, 0.2, stop)
    epochs = []
    parts = networks(tmp_path / "parts", settings, "fashion_mnist")
    resumed = parts.trained(0, 0.2, lambda epoch, loss: epochs.append(epoch))
    assert epochs == [1, 2]
    assert torch.equal(in_parts(whole, X), in_parts(resumed, X))


def test_a_temperature_leaves_the_classes_as_they_are(tmp_path: Path) -> None:
    bench = Bench(networks(tmp_path), 0)
    view = bench.view(stand_in("mnist").X_test)
    plain, scaled = PlainNetwork(bench), scaled_network(bench)
    assert scaled.temperature != 1.0
    assert torch.equal(plain.predict(view).probabilities.argmax(1), scaled.predict(view).probabilities.argmax(1))
    held = bench.calibration
    scores = [class_scores(model.predict(held.view).probabilities, held.y).metrics for model in (plain, scaled)]
    assert scores[1]["log_likelihood"] >= scores[0]["log_likelihood"]


def test_passes_that_agree_tell_nothing() -> None:
    p = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    torch.testing.assert_close(mutual_information(torch.stack([p, p])), torch.zeros(2))
    opposite = torch.stack([p, p.flip(1)])
    torch.testing.assert_close(mutual_information(opposite), torch.tensor([0.0, torch.tensor(2.0).log()]))


def test_the_hybrid_works_on_the_networks_own_features(tmp_path: Path) -> None:
    bench = Bench(networks(tmp_path), 0)
    view = bench.view(stand_in("mnist").X_test)
    hybrid = Hybrid(bench)
    assert torch.equal(hybrid.model.backbone[0](view.features), view.features)
    assert hybrid.predict(view).probabilities.shape == (30, 3)


def test_results_are_stored_and_a_rerun_does_what_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path / "images.jsonl")
    wanted = grid_cells(["mnist", "fashion_mnist"], ["NN+TS", "NN"], 2)
    assert [cell.model for cell in wanted[:4]] == ["NN", "NN", "NN+TS", "NN+TS"]
    list(run_grid(wanted[:3], store, TINY, tmp_path, jobs=1))
    left = missing(wanted, store, TINY)
    assert left == wanted[3:]
    list(run_grid(left, store, TINY, tmp_path, jobs=1))
    assert missing(wanted, store, TINY) == []
    with pytest.raises(ValueError, match="results in one file must have the same configuration, got another one in"):
        missing(wanted, store, ImageSettings())


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="a model must be one of NN, .*, got MLP; choose among those"):
        grid_cells(["mnist"], ["MLP"], 1)
    with pytest.raises(ValueError, match="a data set must be one of mnist, .*, got imagenet; choose among those"):
        grid_cells(["imagenet"], ["NN"], 1)


def test_choices_are_judged_by_images_that_nobody_has_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(choices.OPTIONS, "mnist", choices.OPTIONS["mnist"][:2])
    records = list(run_choices("mnist", 0, TINY, tmp_path))
    assert [record["option"] and tuple(record["option"]["layers"]) for record in records] == [None, (), ("1.0",)]
    rows = networks(tmp_path).rows(0).choice
    X, y = stand_in("mnist").X_train[rows], stand_in("mnist").y_train[rows]
    p = in_parts(networks(tmp_path).trained(0), X).softmax(-1)
    assert records[0]["clean"]["log_likelihood"] == pytest.approx(
        class_scores(p, y).metrics["log_likelihood"], rel=1e-4
    )
    assert set(records[1]["shifts"]) == set(choices.CHOOSING)
    assert not set(choices.CHOOSING) & {shift for shifts in experiment.SHIFTS_OF.values() for shift in shifts}


def test_the_command_runs_and_says_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(experiment.SETTINGS, "quick", TINY)
    path = tmp_path / "images.jsonl"
    arguments = ["run", "images", "--dataset", "mnist", "--model", "NN", "--quick", "--jobs", "1"]
    result = CliRunner().invoke(command_line(), [*arguments, "--results", str(path)])
    assert result.exit_code == 0, result.output
    assert "mnist 0 NN: accuracy" in result.output
    assert len(path.read_text().splitlines()) == 1
    assert len(list((tmp_path / "images_networks").iterdir())) == 1
    again = CliRunner().invoke(command_line(), [*arguments, "--results", str(path)])
    assert "1 cells, 1 of them done" in again.output
