"""A run that is stopped and taken up again ends as if it had never stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import actgp
from actgp import Recipe

RECIPE = Recipe(network_steps=12, num_steps=10, batch_size=16, patience=30)


class StoppedError(Exception):
    pass


@pytest.fixture(autouse=True)
def at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["actgp.training.stages"], "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("actgp.training.data.FEWEST_TO_SPLIT", 10)
    monkeypatch.setattr(sys.modules["actgp.training.stage"], "VALIDATE_EVERY", 3)
    monkeypatch.setattr(sys.modules["actgp.training.stages"], "LAST_PART", 2)


def data(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    X = torch.randn(60, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))
    return X, torch.sin(2 * X[:, 0])


def model(dtype: torch.dtype = torch.float32) -> actgp.DeepGP:
    g = torch.Generator().manual_seed(0)
    dropout = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.1))  # draws from the global generator
    with torch.no_grad():
        dropout[0].weight.normal_(generator=g)
        dropout[0].bias.zero_()
    deep = actgp.deep_gp(2, 1, 2, 10, generator=g)
    return actgp.DeepGP(deep.gp_layers, deep.likelihood, dropout).to(dtype)


def train(
    model: actgp.DeepGP, path: Path | None, stop: tuple[str, int] | None, loader: bool = False, seed: int = 5
) -> actgp.FitResult:
    def callback(step: actgp.Step) -> None:
        if (step.stage, step.step) == stop:
            raise StoppedError

    X, y = data(next(model.parameters()).dtype)
    g = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    source = (DataLoader(TensorDataset(X, y), batch_size=16, shuffle=True),) if loader else (X, y)
    options = {"recipe": RECIPE, "checkpoint": path, "callback": callback, "generator": g, "progress": False}
    return actgp.fit(model, *source, **options)  # type: ignore[arg-type]


def numbers(model: actgp.DeepGP) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(model.parameters())


@pytest.mark.parametrize("loader", [False, True], ids=["tensors", "loader"])
@pytest.mark.parametrize("stop", [("network", 1), ("network", 7), ("network", 12), ("posterior", 1), ("posterior", 6)])
def test_a_run_taken_up_again_ends_the_same(
    stop: tuple[str, int], loader: bool, dtype: torch.dtype, tmp_path: Path
) -> None:
    straight = model(dtype)
    expected = train(straight, None, None, loader)
    path = tmp_path / "run"
    with pytest.raises(StoppedError):
        train(model(dtype), path, stop, loader)
    resumed = model(dtype)
    result = train(resumed, path, None, loader, seed=99)  # all that is random comes from the file
    assert torch.equal(numbers(resumed), numbers(straight))
    assert result.objectives == expected.objectives
    assert result.network_objectives == expected.network_objectives
    assert result.stopped == expected.stopped
    assert result.network is not None
    assert expected.network is not None
    X, _ = data(dtype)
    assert torch.equal(result.network.eval()(X), expected.network.eval()(X))


@pytest.mark.parametrize("step", [1, 2])
def test_what_held_out_rows_have_chosen_is_not_lost(step: int, tmp_path: Path) -> None:
    straight, resumed = model(), model()
    expected = train(straight, None, None)
    assert len(expected.final_objectives) == RECIPE.num_steps // 2
    with pytest.raises(StoppedError):
        train(model(), tmp_path / "run", ("final", step))
    result = train(resumed, tmp_path / "run", None, seed=99)
    assert torch.equal(numbers(resumed), numbers(straight))
    assert result.final_objectives == expected.final_objectives


def test_nor_is_it_before_it_has_been_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    straight, resumed = model(), model()
    train(straight, None, None)

    def stopped(*_: object) -> None:
        raise StoppedError

    with monkeypatch.context() as context, pytest.raises(StoppedError):
        context.setattr(sys.modules["actgp.training.stages"], "apply_factors", stopped)
        train(model(), tmp_path / "run", None)
    train(resumed, tmp_path / "run", None, seed=99)
    assert torch.equal(numbers(resumed), numbers(straight))


def test_a_last_stage_without_steps_is_taken_up_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["actgp.training.stages"], "LAST_PART", 1000)
    straight, resumed = model(), model()
    assert train(straight, None, None).final_objectives == ()
    with pytest.raises(StoppedError):
        train(model(), tmp_path / "run", ("posterior", 6))
    train(resumed, tmp_path / "run", None, seed=99)
    assert torch.equal(numbers(resumed), numbers(straight))


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "run"
    first, again = model(), model()
    expected = train(first, path, None)
    result = train(again, path, ("network", 1))  # would stop at its first step
    assert torch.equal(numbers(first), numbers(again))
    assert result.objectives == expected.objectives
    assert result.seconds >= expected.seconds > 0


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(model(), path, None)
    X, y = data()
    fresh = model()
    before = numbers(fresh)
    g = torch.Generator().manual_seed(5)
    for arguments, what in (
        ((fresh, X + 1, y, RECIPE), "data"),
        ((fresh, X, y, Recipe(network_steps=3, batch_size=16)), "recipe"),
        ((actgp.deep_gp(2, 1, 2, 11), X, y, RECIPE), "model"),
    ):
        with pytest.raises(ValueError, match=f"must belong to this run, got .* of a run with another {what}; use the"):
            actgp.fit(*arguments, checkpoint=path, generator=g, progress=False)
    assert torch.equal(numbers(fresh), before)
    model_file = tmp_path / "model"
    actgp.deep_gp(2, 1, 2, 4).save(model_file)
    with pytest.raises(ValueError, match="must hold a file of kind 'checkpoint', got 'model'"):
        actgp.fit(fresh, X, y, RECIPE, checkpoint=model_file, progress=False)
    damaged = path.read_bytes()
    path.write_bytes(damaged[: len(damaged) // 2])
    with pytest.raises(ValueError, match="must"):
        actgp.fit(fresh, X, y, RECIPE, checkpoint=path, progress=False)
    assert torch.equal(numbers(fresh), before)


SCRIPT = """
import sys, time
sys.path.insert(0, {here!r})
import torch
torch.set_num_threads(1)
import test_checkpoint as t
sys.modules["actgp.training.stages"].CHECKPOINT_SECONDS = 0.0
sys.modules["actgp.training.data"].FEWEST_TO_SPLIT = 10
sys.modules["actgp.training.stage"].VALIDATE_EVERY = 3
def slowly(step):
    print(step.stage, step.step, flush=True)
    time.sleep(0.05)
X, y = t.data()
model = t.model()
torch.manual_seed(5)
t.actgp.fit(model, X, y, t.RECIPE, checkpoint={path!r}, callback=slowly,
            generator=torch.Generator().manual_seed(5), progress=False)
"""


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    straight = model()
    train(straight, None, None)
    path = tmp_path / "run"
    script = SCRIPT.format(here=str(Path(__file__).parent), path=str(path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("posterior 4"):
            os.kill(process.pid, signal.SIGKILL)
            break
    process.wait()
    process.stdout.close()
    resumed = model()
    train(resumed, path, None)
    assert torch.equal(numbers(resumed), numbers(straight))


def test_a_checkpoint_of_other_held_out_rows_is_refused(tmp_path: Path) -> None:
    (X, y), path = data(), tmp_path / "run.ckpt"
    short = Recipe(network_steps=2, num_steps=2)

    def run(held_out: tuple[torch.Tensor, torch.Tensor] | None) -> None:
        loader = DataLoader(TensorDataset(X, y), batch_size=30)
        actgp.fit(model(), loader, recipe=short, held_out=held_out, checkpoint=path, progress=False)

    run((X, y))
    before = path.read_bytes()
    run((X, y))
    for other in ((X + 1, y), (X, -y), (X[:9], y[:9]), None):
        with pytest.raises(ValueError, match="of a run with another choice of held-out rows; use the same"):
            run(other)
    assert path.read_bytes() == before


def test_a_checkpoint_of_a_model_with_other_parts_is_refused(tmp_path: Path) -> None:
    (X, y), path = data(), tmp_path / "run.ckpt"
    short = Recipe(network_steps=2, num_steps=2)
    shapes: list[dict[str, Any]] = [
        {},
        {"layers": actgp.Layers(activation=actgp.Softplus(3.0))},
        {"layers": actgp.Layers(kernel="matched")},
        {"layers": actgp.Layers(num_levels=12)},
        {"layers": actgp.Layers(prior_mean="zero")},
        {"layers": actgp.Layers(horizon=9.0)},
        {"likelihood": actgp.ContaminatedGaussianLikelihood(share=0.3)},
    ]
    first, *others = (actgp.deep_gp(2, 1, 2, 10, **shape) for shape in shapes)
    actgp.fit(first, X, y, short, checkpoint=path, progress=False)
    for other in others:
        before = numbers(other)
        with pytest.raises(ValueError, match="of a run with another model; use the same model"):
            actgp.fit(other, X, y, short, checkpoint=path, progress=False)
        assert torch.equal(numbers(other), before)
