"""Backbones: trained in both stages, or frozen, when each input goes through them once and their statistics stay."""

from pathlib import Path

import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import actgp
from actgp.training.data import TensorBatches
from actgp.training.stage import is_frozen, train_mode
from actgp.training.warm_start import place_points

RECIPE = actgp.Recipe(network_steps=4, num_steps=3, batch_size=16)
N = 240


def data() -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(N, 1, 2, 3, generator=g)
    return X, X.sum((1, 2, 3))


def hybrid(num_points: int = 0) -> actgp.DeepGP:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        backbone = nn.Sequential(nn.Flatten(), nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    g = torch.Generator().manual_seed(0)
    head = actgp.deep_gp(3, 1, num_layers=2, num_inducing=10, layers=actgp.Layers(num_points=num_points), generator=g)
    return actgp.DeepGP(head.gp_layers, GaussianLikelihood(), backbone)


def seen_by(backbone: nn.Module | None) -> list[int]:
    """How many inputs each call of a backbone was given."""
    assert backbone is not None
    calls: list[int] = []
    backbone.register_forward_hook(lambda module, inputs, output: calls.append(len(inputs[0])))
    return calls


def train(model: actgp.DeepGP, *, loader: bool = False, **options: object) -> actgp.FitResult:
    X, y = data()
    g = torch.Generator().manual_seed(1)
    source = (DataLoader(TensorDataset(X, y), batch_size=16),) if loader else (X, y)
    return actgp.fit(model, *source, recipe=RECIPE, generator=g, progress=False, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("loader", [False, True])
def test_a_frozen_backbone_stays_as_it_is_with_its_statistics(loader: bool) -> None:
    model = hybrid()
    model.backbone.requires_grad_(False)
    before = {name: values.clone() for name, values in model.backbone.state_dict().items()}
    means = model.gp_layers[0].q.mean.clone()
    train(model, loader=loader)
    after = model.backbone.state_dict()
    assert all(torch.equal(after[name], values) for name, values in before.items())
    assert not torch.equal(model.gp_layers[0].q.mean, means)
    assert not model.training


def test_other_backbones_are_trained_in_all_stages() -> None:
    model = hybrid()
    weights = [model.backbone[1].weight.detach().clone()]

    def watch(step: actgp.Step) -> None:
        if (step.stage, step.step) in (("network", 4), ("posterior", 3)):
            weights.append(model.backbone[1].weight.detach().clone())

    X, y = data()
    actgp.fit(model, X, y, actgp.Recipe(network_steps=4, num_steps=3, validation=0.0), callback=watch, progress=False)
    start, network, posterior = weights
    assert not torch.equal(start, network)
    assert not torch.equal(network, posterior)
    assert model.backbone[2].num_batches_tracked == 7  # none by warm start and prediction


def test_each_input_goes_through_a_frozen_backbone_once() -> None:
    model = hybrid()
    model.backbone.requires_grad_(False)
    calls = seen_by(model.backbone)
    result = train(model)
    assert sum(calls) == N
    X, _ = data()
    assert result.network is not None
    assert result.network(X).shape == (N,)


def test_callbacks_are_told_of_the_whole_model() -> None:
    model = hybrid()
    model.backbone.requires_grad_(False)
    told = set()
    train(model, callback=lambda step: told.add(step.model))
    assert told == {model}


def test_a_run_behind_a_frozen_backbone_is_taken_up(tmp_path: Path) -> None:
    whole, cut = hybrid(), hybrid()
    for model in (whole, cut):
        model.backbone.requires_grad_(False)
    train(whole, checkpoint=tmp_path / "whole")

    def interrupt(step: actgp.Step) -> None:
        if step.stage == "posterior":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(cut, checkpoint=tmp_path / "cut", callback=interrupt)
    again = hybrid()
    again.backbone.requires_grad_(False)
    train(again, checkpoint=tmp_path / "cut")
    X, _ = data()
    assert torch.equal(again.predict(X).mean, whole.predict(X).mean)


def test_the_network_of_stage_1_is_ready_for_use() -> None:
    network = train(hybrid()).network
    assert network is not None
    assert not any(part.training for part in network.modules())


def test_points_are_placed_without_all_inputs_in_the_backbone_at_once() -> None:
    model = hybrid(num_points=4)
    calls = seen_by(model.backbone)
    X, y = data()
    place_points(model.eval(), TensorBatches(X, y[:, None], 16, torch.Generator()), 0)
    assert sum(calls) == N
    assert max(calls) < N


def test_only_frozen_parts_are_kept_in_evaluation_mode() -> None:
    network = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Dropout()), nn.Linear(2, 2), nn.Dropout())
    network[0].requires_grad_(False)
    train_mode(network)
    assert [module.training for module in (network, network[0], network[0][1], network[1], network[2])] == [
        True,
        False,
        False,
        True,
        True,
    ]
    assert not is_frozen(None)
    assert not is_frozen(nn.Flatten())  # nothing to freeze
