"""The UCI grid on a generated stand-in: durable, resumable, reproducible."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from actgp.cli import command_line
from actgp_experiments.baselines import OurDeepGP, Settings
from actgp_experiments.datasets import DatasetUnavailable, Regression
from actgp_experiments.store import Store
from actgp_experiments.uci import ABLATIONS, Cell, grid_cells, missing, run_cell, run_grid, stale
from actgp_experiments.uci import cells as cells_module
from actgp_experiments.uci import grid as grid_module
from actgp_experiments.uci.cells import copied, standardised

TINY = Settings(num_layers=2, units=8, network_steps=20, posterior_steps=5, exact_steps=3, members=2, samples=3)


def stand_in(name: str) -> Regression:
    random = np.random.default_rng(len(name))
    X = 5 + 3 * random.standard_normal((250, 3))
    X[:, 2] = 7.0  # a constant column
    y = 100 + 20 * np.sin(X[:, 0]) + random.standard_normal(250)
    return Regression(name, X, y, ("a", "b", "c"), "y")


@pytest.fixture(autouse=True)
def generated(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cells_module, grid_module):
        monkeypatch.setattr(module, "load_regression", stand_in)


def test_a_split_is_standardised_on_its_training_part_alone() -> None:
    part = standardised(stand_in("energy"), 1)
    assert len(part.X_train) == 225
    assert len(part.X_test) == 25
    np.testing.assert_allclose(part.y_train.mean(), 0, atol=1e-6)
    np.testing.assert_allclose(part.X_train.std(0, correction=0), [1, 1, 0], atol=1e-5)
    assert abs(part.y_test.mean().item()) > 1e-4
    whole = stand_in("energy").y
    restored = np.sort(np.concatenate([part.y_train, part.y_test])) * part.scale
    np.testing.assert_allclose(np.diff(restored).sum(), whole.max() - whole.min(), rtol=1e-5)


def test_a_cell_gives_a_record_that_a_rerun_reproduces() -> None:
    cell = Cell("energy", 2, "NN")
    first, again = run_cell(cell, TINY), run_cell(cell, TINY)
    assert json.loads(json.dumps(first)) == first
    assert first["metrics"] == again["metrics"]
    assert first["pit"] == again["pit"]
    assert sum(first["pit"]) == first["rows"]["test"] == 25
    assert first["configuration"]["units"] == 8
    assert run_cell(Cell("energy", 3, "NN"), TINY)["metrics"] != first["metrics"]


def test_rows_that_are_copies_of_training_rows_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(name: str) -> Regression:
        whole = stand_in(name)
        X, y = np.concatenate([whole.X, whole.X[:50]]), np.concatenate([whole.y, whole.y[:50]])
        y[-1] += 1.0  # the same inputs with another target are no copy
        return Regression(name, X, y, whole.feature_names, whole.target_name)

    part = standardised(doubled("energy"), 0)
    train = torch.cat([part.X_train, part.y_train[:, None]], dim=1)
    test = torch.cat([part.X_test, part.y_test[:, None]], dim=1)
    expected = (test[:, None] == train).all(-1).any(-1)
    assert 0 < expected.sum() < len(expected)
    assert torch.equal(copied(part), expected)
    monkeypatch.setattr(cells_module, "load_regression", doubled)
    found = run_cell(Cell("energy", 0, "NN"), TINY)
    copies, others = found["copies"]["rows"], found["rows"]["test"] - found["copies"]["rows"]
    whole = (copies * found["copies"]["nlpd"] + others * found["copies"]["nlpd_others"]) / (copies + others)
    assert whole == pytest.approx(found["metrics"]["nlpd"], rel=1e-5)
    assert run_cell(Cell("energy", 0, "NN"), TINY)["copies"] == found["copies"]


def test_without_copies_all_rows_are_others() -> None:
    found = run_cell(Cell("energy", 2, "NN"), TINY)
    assert (found["copies"]["rows"], found["copies"]["nlpd"]) == (0, None)
    assert found["copies"]["nlpd_others"] == pytest.approx(found["metrics"]["nlpd"])


def test_results_are_stored_as_they_come_and_a_rerun_does_what_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "uci.jsonl")
    wanted = grid_cells(["energy", "energy"], ["NN", "NN+TS", "NN"], 2, TINY)
    assert len(wanted) == 4  # each once
    running = run_grid(wanted, store, TINY, jobs=1)
    next(running)
    assert len(store.records()) == 1  # on the disk before the next one is asked for
    running.close()  # an interrupt
    left = missing(wanted, store, TINY)
    assert len(left) == 3
    list(run_grid(left, store, TINY, jobs=1))
    assert missing(wanted, store, TINY) == []
    assert len(store.path.read_text().splitlines()) == 4


def test_results_of_another_revision_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "uci.jsonl")
    wanted = grid_cells(["energy"], ["NN", "NN+TS"], 1, TINY)
    for cell, made_by in zip(wanted, ("one", "two"), strict=True):
        store.append(asdict(cell) | {"configuration": asdict(TINY), "revision": made_by})
    monkeypatch.setattr("actgp_experiments.store.revision", lambda: "two")
    assert stale(wanted, store, TINY) == ["NN"]
    assert missing(wanted, store, TINY) == []
    assert missing(wanted, store, TINY, again=True) == wanted[:1]


def test_ablations_leave_one_thing_out_each(monkeypatch: pytest.MonkeyPatch) -> None:
    built = {name: build(TINY, 0) for name, build in ABLATIONS.items()}
    ours, *others = built.values()
    assert (ours.shape, ours.training) == ({"num_layers": 2}, {})
    for other in others:
        assert len(other.shape.keys() - ours.shape.keys()) + len(other.training) == 1
    monkeypatch.setitem(ABLATIONS, "shorter", lambda settings, seed: OurDeepGP(settings, seed, {"num_inducing": 4}))
    (cell,) = grid_cells(["energy"], ["shorter"], 1, TINY)
    assert run_cell(cell, TINY)["model"] == "shorter"


def test_a_line_that_was_cut_off_is_done_again_and_hurts_no_other(tmp_path: Path) -> None:
    store = Store(tmp_path / "uci.jsonl")
    wanted = grid_cells(["energy"], ["NN"], 2, TINY)
    list(run_grid(wanted, store, TINY, jobs=1))
    text = store.path.read_text()
    store.path.write_text(text[: len(text) - 40])
    left = missing(wanted, store, TINY)
    assert len(left) == 1
    list(run_grid(left, store, TINY, jobs=1))
    assert missing(wanted, store, TINY) == []
    assert len(store.records()) == 2


def test_cells_run_in_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_module, "run_cell", _named)
    wanted = grid_cells(["energy", "yacht"], ["NN"], 2, TINY)
    found = list(run_grid(wanted, Store(tmp_path / "uci.jsonl"), TINY, jobs=2))
    assert sorted((r["data"], r["split"]) for r in found) == [("energy", 0), ("energy", 1), ("yacht", 0), ("yacht", 1)]


def _named(cell: Cell, settings: Settings) -> dict[str, object]:
    return {"data": cell.data, "split": cell.split, "model": cell.model, "configuration": {}}


def test_results_of_other_settings_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "uci.jsonl")
    wanted = grid_cells(["energy"], ["NN"], 1, TINY)
    list(run_grid(wanted, store, TINY, jobs=1))
    with pytest.raises(ValueError, match="must have the same configuration, got another one in .*uci.jsonl; write to"):
        missing(wanted, store, Settings())


def test_exact_gps_are_left_out_where_rows_are_too_many() -> None:
    few = Settings(largest_exact=225)
    assert Cell("energy", 0, "GPR") in grid_cells(["energy"], ["GPR"], 1, few)
    assert grid_cells(["energy"], ["GPR"], 1, Settings(largest_exact=224)) == []


def test_unknown_names_and_too_many_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="a model must be one of NN, .*, got BNN; choose among those"):
        grid_cells(["energy"], ["BNN"], 1, TINY)
    with pytest.raises(ValueError, match="splits must be between 1 and 20, got 21; choose fewer"):
        grid_cells(["energy"], ["NN"], 21, TINY)


def test_the_command_runs_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_module, "QUICK", TINY)
    monkeypatch.setattr("actgp_experiments.commands.grid.QUICK", TINY)
    results = tmp_path / "uci.jsonl"
    arguments = ["run", "uci", "--quick", "--data", "energy", "--model", "NN", "--jobs", "1", "--results", str(results)]
    first = CliRunner().invoke(command_line(), arguments)
    assert first.exit_code == 0, first.output
    assert "1 cells, 0 of them done" in first.output
    assert "energy 0 NN: RMSE" in first.output
    again = CliRunner().invoke(command_line(), arguments)
    assert "1 cells, 1 of them done" in again.output
    assert len(results.read_text().splitlines()) == 1


def test_the_command_says_where_data_may_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(name: str) -> Regression:
        raise DatasetUnavailable(f"{name} is not here")

    monkeypatch.setattr(grid_module, "load_regression", unavailable)
    result = CliRunner().invoke(command_line(), ["run", "uci", "--data", "energy"])
    assert result.exit_code == 2
    assert "energy is not here" in result.output
