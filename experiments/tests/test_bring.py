"""The grid around trained networks, on a generated stand-in: durable, resumable, with networks kept."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from actgp_experiments.bring import CONTESTANTS, OURS, QUICK, Cell, grid_cells, markdown, missing, run_cell, run_grid
from actgp_experiments.bring import cells as cells_module
from actgp_experiments.bring.contestants import vbll
from actgp_experiments.bring.networks import build, hold_out, squared_error, train
from actgp_experiments.datasets import Regression
from actgp_experiments.store import Store

TINY = replace(QUICK, units=8, steps=60, every=20, evidence_steps=5, samples=3, variational_steps=20, eigenvalues=5)


def stand_in(name: str) -> Regression:
    random = np.random.default_rng(len(name))
    X = 5 + 3 * random.standard_normal((150, 3))
    return Regression(name, X, 100 + 20 * np.sin(X[:, 0]) + random.standard_normal(150), ("a", "b", "c"), "y")


@pytest.fixture(autouse=True)
def generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells_module, "load_regression", stand_in)
    monkeypatch.setattr(cells_module, "revision", lambda: "one")


def test_training_ends_with_what_validated_best() -> None:
    X = torch.randn(120, 2, generator=torch.Generator().manual_seed(0))
    rows = hold_out(X, X[:, 0].sin(), 0.2, seed=0)
    assert len(rows.X_train) == 96
    assert {tuple(row) for row in torch.cat([rows.X_train, rows.X_validation]).tolist()} == {
        tuple(row) for row in X.tolist()
    }
    torch.manual_seed(0)
    network = build(2, "tanh", 2, 8)
    seen: list[float] = []

    def judged(net: torch.nn.Module, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        seen.append(squared_error(net, X, y).item())
        return squared_error(net, X, y)

    train(network, rows, TINY, 0, validation_loss=judged)
    assert len(seen) == 3
    assert squared_error(network, rows.X_validation, rows.y_validation).item() == min(seen)


@pytest.mark.parametrize("model", [name for name in CONTESTANTS if name != OURS])
def test_each_contestant_gives_the_same_record_again(model: str, tmp_path: Path) -> None:
    if model == "VBLL" and vbll is None:
        pytest.skip("without vbll")
    if "Laplace" in model or model == "ELLA":
        pytest.importorskip("laplace")
    cell = Cell("energy", "silu", 2, 0, model)
    first, again = (run_cell(cell, TINY, tmp_path) for _ in range(2))
    assert json.loads(json.dumps(first)) == first
    assert first["metrics"] == again["metrics"]
    assert first["revision"] == "one"
    assert first["rows"] == {"train": 108, "validation": 27, "test": 15}
    assert first["seconds"]["train"] > 0


def test_contestants_share_a_network_that_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("laplace")
    plain = run_cell(Cell("energy", "relu", 2, 1, "network"), TINY, tmp_path)
    (path,) = tmp_path.iterdir()
    written = path.stat().st_mtime_ns
    laplace = run_cell(Cell("energy", "relu", 2, 1, "Laplace, last layer"), TINY, tmp_path)
    assert laplace["metrics"]["rmse"] == pytest.approx(plain["metrics"]["rmse"], rel=1e-5)
    assert laplace["seconds"]["train"] == plain["seconds"]["train"]
    assert path.stat().st_mtime_ns == written


def test_a_rerun_does_what_is_missing_or_of_another_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "bring.jsonl")
    wanted = grid_cells(["energy"], ["network"], 1)
    assert len(wanted) == 6
    assert [record["layers"] for record in run_grid(wanted[:1], store, TINY, 1)] == [2]
    assert missing(wanted, store, TINY) == wanted[1:]
    monkeypatch.setattr("actgp_experiments.store.revision", lambda: "one")
    assert missing(wanted, store, TINY, again=True) == wanted[1:]
    monkeypatch.setattr("actgp_experiments.store.revision", lambda: "two")
    assert missing(wanted, store, TINY, again=True) == wanted
    with pytest.raises(ValueError, match="must have the same configuration, got another one"):
        missing(wanted, store, QUICK)
    with pytest.raises(ValueError, match="a contestant must be one of network, .*, got Laplce; choose among those"):
        grid_cells(["energy"], ["Laplce"], 1)


def test_the_table_counts_cells_in_which_ours_is_better() -> None:
    def record(model: str, seed: int, nlpd: float) -> dict[str, object]:
        metrics = {"nlpd": nlpd, "rmse": 1.0, "coverage_95": 0.9}
        cell = {"data": "yacht", "activation": "relu", "layers": 2, "seed": seed, "model": model}
        return {**cell, "metrics": metrics, "seconds": {"train": 2.0, "post_hoc": 1.0}}

    stored = [record("network", 0, 5.0), record("network", 1, 1.0), record(OURS, 0, 9.0), record(OURS, 1, 2.0)]
    text = markdown([*stored, record(OURS, 0, 3.0)])  # the last one counts
    assert "| network | 3.000 |" in text
    assert "| convert | 2.500 |" in text
    assert "| network | 2 | 1.000 | 90.0 | 2.0 | 1.0 | 50 % | +1.000 |" in text
