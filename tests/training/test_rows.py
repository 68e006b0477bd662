"""Who is trained on what, who judges, and what a stage ends with."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import actgp
from actgp import Recipe
from actgp.training.data import TensorBatches
from actgp.training.loop import Stage
from actgp.training.objectives import Evaluation
from actgp.training.rows import StageData, data_of_stages
from actgp.training.schedule import Schedule


def divided(N: int, **options: float) -> tuple[StageData, StageData]:
    model = actgp.deep_gp(1, num_layers=1, num_inducing=5)
    X = torch.arange(float(N)).unsqueeze(-1)
    recipe = Recipe(**options)  # type: ignore[arg-type]
    return data_of_stages(model, X, X[:, 0], recipe, torch.device("cpu"), torch.Generator().manual_seed(0))


def rows_of(stage: StageData) -> tuple[set[float], set[float]]:
    trained = {x.item() for X, _ in stage.batches.all() for x in X}
    return trained, set() if stage.held_out is None else {x.item() for x in stage.held_out[0]}


def test_judges_of_the_second_stage_had_no_part_in_the_first() -> None:
    first, second = (rows_of(stage) for stage in divided(300))
    assert len(first[1]) == len(second[1]) == 30
    assert second[1].isdisjoint(first[0] | first[1])
    assert second[0] == first[0] | first[1]
    assert len(second[0] | second[1]) == 300


def test_one_stage_alone_gives_up_one_part_only() -> None:
    for options in ({"num_steps": 0}, {"network_steps": 0}):
        for trained, judges in (rows_of(stage) for stage in divided(300, **options)):
            assert len(trained) == 270
            assert len(judges) == 30


def test_few_rows_are_all_trained_on() -> None:
    first, second = divided(100)
    assert first.batches is second.batches
    assert first.held_out is None
    assert rows_of(first)[0] == set(range(100))


@pytest.mark.parametrize("loader", [False, True])
def test_rows_that_are_given_judge_each_stage_by_half(loader: bool) -> None:
    model = actgp.deep_gp(1, num_layers=1, num_inducing=5)
    X, judges = torch.arange(300.0)[:, None], torch.arange(300.0, 321.0)[:, None]
    data = DataLoader(TensorDataset(X, X[:, 0]), batch_size=50) if loader else X
    y = None if loader else X[:, 0]
    cpu, g = torch.device("cpu"), torch.Generator().manual_seed(0)
    first, second = data_of_stages(model, data, y, Recipe(), cpu, g, (judges, judges[:, 0]))
    assert rows_of(first) == (set(range(300)), set(range(300, 321, 2)))
    assert rows_of(second) == (set(range(300)), set(range(301, 321, 2)))
    _, alone = data_of_stages(model, data, y, Recipe(), cpu, g, (judges[:1], judges[:1, 0]))
    assert rows_of(alone)[1] == {300}
    with pytest.raises(ValueError, match="X must"):
        data_of_stages(model, data, y, Recipe(), cpu, g, (judges[:0], judges[:0, 0]))


def noisy_stage(memory: int, steps: int) -> tuple[Stage, nn.Linear]:
    """Steps of ±1 around a weight of 3."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 3.0)
    signs = iter([1.0, -1.0] * steps)

    def evaluate(X: torch.Tensor, y: torch.Tensor) -> Evaluation:
        value = next(signs) * model.weight.sum()
        return Evaluation(value, -value.detach())

    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    return Stage("posterior", model, evaluate, [sgd], Schedule(steps, 10 * steps, decay=1e-9), memory=memory), model


def test_averages_forget_the_noise_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actgp.training.loop.WARM_UP", 1)
    batches = TensorBatches(torch.zeros(2, 1), torch.zeros(2, 1), 2, torch.Generator())
    ends = {}
    for memory in (0, 20):
        stage, model = noisy_stage(memory, 101)
        stage.run(batches, lambda objective, rate=1.0: None, None, lambda: None)
        ends[memory] = model.weight.item()
    assert ends[0] == pytest.approx(2.0)  # after an odd number of steps
    assert ends[20] == pytest.approx(2.5, abs=0.06)  # the middle between 2 and 3


def test_averages_are_judged_and_parameters_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actgp.training.loop.WARM_UP", 1)
    monkeypatch.setattr("actgp.training.loop.JUDGE_EVERY", 1)
    batches = TensorBatches(torch.zeros(2, 1), torch.zeros(2, 1), 2, torch.Generator())
    stage, model = noisy_stage(20, 100)
    judged, trained = [], []

    def monitor() -> float:
        judged.append(model.weight.item())
        return len(judged)

    stage.monitor = monitor
    stage.run(batches, lambda objective, rate=1.0: trained.append(model.weight.item()), None, lambda: None)
    assert set(trained) == {2.0, 3.0}
    assert max(abs(value - 2.5) for value in judged[50:]) < 0.06
    assert model.weight.item() == judged[-1]
