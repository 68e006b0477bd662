"""Who is trained on what, who judges, and what a stage ends with."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import actgp
from actgp import Recipe
from actgp.training.data import StageData, TensorBatches, data_of_stages
from actgp.training.objectives import Evaluation
from actgp.training.stage import Schedule, Stage


def divided(N: int, **options: float) -> tuple[StageData, ...]:
    model = actgp.deep_gp(1, num_layers=1, num_inducing=5)
    X = torch.arange(float(N)).unsqueeze(-1)
    recipe = Recipe(**options)  # type: ignore[arg-type]
    return data_of_stages(model, X, X[:, 0], recipe, torch.device("cpu"), torch.Generator().manual_seed(0))


def rows_of(stage: StageData) -> tuple[set[float], set[float]]:
    trained = {x.item() for X, _ in stage.batches.all() for x in X}
    return trained, set() if stage.held_out is None else {x.item() for x in stage.held_out[0]}


def test_judges_of_the_second_stage_had_no_part_in_the_first() -> None:
    first, second, last = (rows_of(stage) for stage in divided(300))
    assert len(first[1]) == len(second[1]) == 30
    assert second[1].isdisjoint(first[0] | first[1])
    assert second[0] == first[0] | first[1]
    assert len(second[0] | second[1]) == 300
    assert last == (second[0] | second[1], set())  # who judged joins at last


@pytest.mark.parametrize("options", [{"use_all_rows": False}, {"num_steps": 0}, {"validation": 0.0}])
def test_who_does_not_judge_stage_2_or_is_not_to_join_does_not(options: dict[str, float]) -> None:
    assert len(divided(300, **options)) == 2


def test_one_stage_alone_gives_up_one_part_only() -> None:
    for options in ({"num_steps": 0}, {"network_steps": 0}):
        for trained, judges in (rows_of(stage) for stage in divided(300, **options)[:2]):
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
    monkeypatch.setattr("actgp.training.stage.WARM_UP", 1)
    batches = TensorBatches(torch.zeros(2, 1), torch.zeros(2, 1), 2, torch.Generator())
    ends = {}
    for memory in (0, 20):
        stage, model = noisy_stage(memory, 101)
        stage.run(batches, lambda objective, rate=1.0: None, None, lambda: None)
        ends[memory] = model.weight.item()
    assert ends[0] == pytest.approx(2.0)  # after an odd number of steps
    assert ends[20] == pytest.approx(2.5, abs=0.06)  # the middle between 2 and 3


def test_averages_are_judged_and_parameters_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actgp.training.stage.WARM_UP", 1)
    monkeypatch.setattr("actgp.training.stage.VALIDATE_EVERY", 1)
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


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"recipe": {"num_steps": 3}}, "recipe must be an actgp.Recipe or None, got dict; pass e.g."),
        ({"held_out": torch.zeros(9, 1)}, r"held_out must be a pair of tensors \(X, y\), got Tensor; pass held_out="),
        ({"held_out": (torch.zeros(9, 1),)}, "held_out must be a pair of tensors"),
        ({"held_out": (torch.zeros(9, 1), None)}, "held_out must be a pair of tensors"),
        ({"callback": 3}, "callback must be a function of a Step, got int; pass a function"),
        ({"generator": 0}, "generator must be a torch.Generator, got int; pass e.g."),
    ],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_options_are_refused_before_anything_changes(options: dict[str, object], match: str, frozen: bool) -> None:
    deep = actgp.deep_gp(1, num_layers=1, num_inducing=5)
    model = actgp.DeepGP(deep.gp_layers, deep.likelihood, nn.Linear(1, 1).requires_grad_(False)) if frozen else deep
    before = {name: values.clone() for name, values in model.state_dict().items()}
    X = torch.arange(20.0)[:, None]
    with pytest.raises(TypeError, match=match):
        actgp.fit(model, X, X[:, 0], **{"recipe": Recipe(network_steps=2, num_steps=2), **options})  # type: ignore[arg-type]
    assert model.training
    assert all(torch.equal(values, before[name]) for name, values in model.state_dict().items())


@pytest.mark.parametrize("held_out", [False, True])
def test_targets_are_checked_before_a_frozen_backbone_sees_anything(held_out: bool) -> None:
    class Untouched(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("went through the backbone")

    deep = actgp.deep_gp(1, num_layers=1, num_inducing=5)
    model = actgp.DeepGP(deep.gp_layers, deep.likelihood, Untouched(1, 1).requires_grad_(False))
    X, bad = torch.arange(20.0)[:, None], torch.full((20,), float("nan"))
    y, judges = (X[:, 0], (X, bad)) if held_out else (bad, None)
    with pytest.raises(ValueError, match="y must be finite"):
        actgp.fit(model, X, y, held_out=judges, progress=False)
    assert model.training


@pytest.mark.parametrize("value", ["much", None])
def test_the_part_to_hold_out_must_be_a_number(value: object) -> None:
    with pytest.raises(TypeError, match="validation must be a number, got .*; pass e.g. 0.1"):
        Recipe(validation=value)  # type: ignore[arg-type]


def test_what_is_no_tensor_is_named() -> None:
    model = actgp.deep_gp(1, num_layers=1, num_inducing=5)
    rows = TensorDataset(torch.zeros(9, 1), torch.zeros(9))
    with pytest.raises(
        TypeError, match="X must be a tensor or a DataLoader, got TensorDataset without y; .*DataLoader"
    ):
        actgp.fit(model, rows)  # type: ignore[arg-type]


def test_inputs_that_carry_gradients_are_taken_as_they_are() -> None:
    model = actgp.deep_gp(1, num_layers=1, num_inducing=5)
    X = 2 * torch.arange(20.0)[:, None].requires_grad_()
    actgp.fit(model, X, X[:, 0], Recipe(network_steps=2, num_steps=2), progress=False)


@pytest.mark.parametrize(("name", "x_size", "y_size"), [("X", 1e20, 1.0), ("y", 1.0, 1e20)])
def test_rows_too_large_to_be_squared_are_refused(name: str, x_size: float, y_size: float) -> None:
    model = actgp.deep_gp(1, num_layers=1, num_inducing=5)
    X = torch.linspace(-1, 1, 20)[:, None]
    match = f"{name} must be at most 4e.18 in size, so that its squares .*got 1e.20; standardise {name}"
    with pytest.raises(ValueError, match=match):
        actgp.fit(model, x_size * X, y_size * X[:, 0])


def test_options_that_an_exact_fit_does_not_have_are_refused() -> None:
    X = torch.linspace(-1, 1, 20)[:, None]
    model = actgp.GPR(X, X[:, 0], actgp.ArcCosine(1))
    for name, value in (("held_out", (X, X[:, 0])), ("checkpoint", "a"), ("callback", print)):
        with pytest.raises(ValueError, match=f"GPR is fitted in one go, to all of its data, got {name}; leave it out"):
            actgp.fit(model, **{name: value})  # type: ignore[arg-type]
