"""Logits that are believed less away from the data."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import actgp
from actgp.convert.forgetting import NEAR, PRICE, Forgetting
from actgp.convert.perturbed import BLENDED, SWAPPED, perturbed
from actgp.several import Inputs


def data(N: int = 900) -> tuple[Tensor, Tensor]:
    """Three classes, not quite told apart by eight inputs."""
    g = torch.Generator().manual_seed(0)
    X = torch.randn(N, 8, generator=g)
    return X, (torch.tanh(X @ torch.randn(8, 3, generator=g)) + 0.5 * torch.randn(N, 3, generator=g)).argmax(1)


@pytest.fixture(scope="module")
def trained() -> tuple[nn.Module, Tensor, Tensor]:
    """A network that has seen the first 200 rows too often."""
    X, y = data()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
        adam = torch.optim.Adam(network.parameters(), 0.01)
        for _ in range(200):
            adam.zero_grad()
            nn.functional.cross_entropy(network(X[:200]), y[:200]).backward()
            adam.step()
    return network, X, y


def softened(trained: tuple[nn.Module, Tensor, Tensor], seed: int = 0) -> tuple[actgp.DeepGP, actgp.Softening]:
    network, X, y = trained
    model, _ = actgp.convert(network, X[:200], y[:200], generator=torch.Generator().manual_seed(seed))
    return model, actgp.soften(model, X[200:500], y[200:500], generator=torch.Generator().manual_seed(seed))


def log_likelihood(logits: Tensor, y: Tensor) -> float:
    return -nn.functional.cross_entropy(logits, y).item()


@torch.no_grad()
def test_an_overconfident_network_is_cooled_and_its_classes_stay(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    network, X, y = trained
    model, found = softened(trained)
    assert found.temperature > 1
    assert "logits are divided by" in str(found)
    mean, before = model.mean(X), network(X)
    assert torch.equal(mean.argmax(1), before.argmax(1))
    assert log_likelihood(mean[500:], y[500:]) > log_likelihood(before[500:], y[500:]) + 0.1
    assert log_likelihood(mean[200:500], y[200:500]) > log_likelihood(before[200:500], y[200:500]) - PRICE


@torch.no_grad()
def test_far_away_hardly_anything_is_left(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    network, X, _ = trained
    model, found = softened(trained)
    assert found.strength > 0
    far = torch.randn(50, 8, generator=torch.Generator().manual_seed(1)) * 30
    left = model.mean(far).softmax(1).amax(1)
    assert network(far).softmax(1).amax(1).mean() > 0.99
    assert left.mean() < model.mean(X).softmax(1).amax(1).mean()


def test_what_is_unlike_is_what_the_prior_leaves_unexplained(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    network, X, y = trained
    model, _ = actgp.convert(network, X[:200], y[:200], num_inducing=20)
    (layer,) = model.gp_layers
    h = model.backbone(X)
    forgetting = Forgetting(layer.features.locations.detach())
    torch.testing.assert_close(forgetting.unlike(layer.split(h)[0]).float(), layer.unexplained(h), rtol=0, atol=1e-4)


def test_the_formula() -> None:
    g = torch.Generator().manual_seed(0)
    points, z, mu = (torch.randn(N, K, generator=g, dtype=torch.float64) for N, K in ((5, 2), (9, 2), (9, 3)))
    forgetting = Forgetting(points)
    assert torch.equal(forgetting(z, mu), mu)  # at first
    u = forgetting.unlike(z)
    forgetting.numbers.copy_(torch.tensor([1.5, 0.3, u.median()]))
    e = (u - u.median()).clamp_min(0) / (u.median() + NEAR)
    centred = mu - mu.mean(1, keepdim=True)
    expected = mu / (1.5 * (1 + 0.3 * e**2 * centred.square().sum(1)).sqrt())[:, None]
    torch.testing.assert_close(forgetting(z, mu), expected)
    one = mu[:, :1] / (1.5 * (1 + 0.3 * e**2 * mu[:, 0] ** 2).sqrt())[:, None]
    torch.testing.assert_close(forgetting(z, mu[:, :1]), one)


@torch.no_grad()
def test_a_network_that_is_right_about_itself_keeps_its_logits() -> None:
    X, _ = data(600)
    network = nn.Linear(8, 3)
    network.weight.mul_(3)
    y = torch.multinomial(network(X).softmax(1), 1, generator=torch.Generator().manual_seed(1))[:, 0]
    model, _ = actgp.convert(network, X[:200], y[:200])
    found = actgp.soften(model, X[200:], y[200:])
    assert found.temperature <= 1.2
    assert log_likelihood(model.mean(X[200:]), y[200:]) > log_likelihood(network(X[200:]), y[200:]) - PRICE


def test_it_can_be_done_again(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    model, first = softened(trained)
    _, X, y = trained
    before = model.mean(X)
    again = actgp.soften(model, X[200:500], y[200:500], generator=torch.Generator().manual_seed(0))
    assert again.temperature == first.temperature
    assert model.mean(X).shape == before.shape


def test_files_hold_it(trained: tuple[nn.Module, Tensor, Tensor], tmp_path: Path) -> None:
    network, X, _ = trained
    model, _ = softened(trained)
    model.save(tmp_path / "model")
    for backbone in (network, model.backbone):
        assert torch.equal(actgp.load(tmp_path / "model", backbone=backbone).mean(X), model.mean(X))


@torch.no_grad()
def test_one_logit(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    X, y = data(500)
    network = nn.Sequential(nn.Linear(8, 1), nn.Flatten(0))
    network[0].weight.mul_(20)
    labels = (y == 0).long()
    model, _ = actgp.convert(network, X[:200], labels[:200])
    assert actgp.soften(model, X[200:], labels[200:]).temperature > 1
    assert torch.equal(model.mean(X) > 0, network(X) > 0)


def test_rows_are_perturbed_in_all_their_parts(generator: torch.Generator) -> None:
    X = torch.arange(40.0).view(20, 2)
    tokens = torch.arange(60).view(20, 3)
    versions = list(perturbed(Inputs((X, tokens), None), generator))
    assert len(versions) == len(SWAPPED) + len(BLENDED)
    for version in versions:
        assert isinstance(version, Inputs)
        values, kept = version.tensors
        assert values.shape == X.shape
        assert kept.dtype == tokens.dtype
    swapped, blended = versions[1], versions[-1]
    assert set(swapped.tensors[0][:, 0].tolist()) <= set(X[:, 0].tolist())  # entries stay in their columns
    assert 0 < (swapped.tensors[1] != tokens).double().mean() < 0.5
    assert torch.equal(blended.tensors[1], tokens)
    torch.testing.assert_close(blended.tensors[0].mean(0), X.mean(0))
    assert len(list(perturbed(tokens, generator))) == len(SWAPPED)


def test_refusals(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    network, X, y = trained
    regression, _ = actgp.convert(network, X, X[:, :3])
    with pytest.raises(ValueError, match=r"softened for labels, got a model with Contaminated.*; give held-out rows"):
        actgp.soften(regression, X, X[:, :3])
    with pytest.raises(TypeError, match="model must be what convert returns, got Sequential; convert a network first"):
        actgp.soften(network, X, y)  # type: ignore[arg-type]


@torch.no_grad()
def test_held_out_rows_set_the_bounds(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    """As they are, they lose next to nothing to the temperature; a quarter of them are divided by more."""
    network, X, y = trained
    model, found = softened(trained)
    held = X[200:500]
    cooled = network(held) / found.temperature
    divided = cooled.norm(dim=1) / model.mean(held).norm(dim=1)
    assert (divided > 1 + 1e-5).double().mean().item() == pytest.approx(0.25, abs=0.02)
    gain = log_likelihood(model.mean(held), y[200:500]) - log_likelihood(cooled, y[200:500])
    assert gain > -PRICE - 1e-6


@torch.no_grad()
def test_small_features_are_unlike_those_of_every_class() -> None:
    """Features near the centre of all, in a direction of their own: their length is no measure of what is known."""
    g = torch.Generator().manual_seed(0)
    X = 5 * torch.eye(6)[torch.randint(4, (300,), generator=g)] + 0.2 * torch.rand(300, 6, generator=g)
    y = X[:, :4].argmax(1)
    images = X.view(300, 6, 1, 1)
    model, _ = actgp.convert(nn.Sequential(nn.Flatten(), nn.Linear(6, 4)), images, y, num_inducing=20, generator=g)
    strange = torch.tensor([0.1, 0.1, 0.1, 0.1, 1.0, 0.2]).view(1, 6, 1, 1)
    (layer,) = model.gp_layers
    known, unknown = (layer.unexplained(model.backbone(rows)) for rows in (images, strange))
    assert unknown > 5 * known.max()
    torch.testing.assert_close(layer.unexplained(model.backbone(7 * strange)), unknown)


@torch.no_grad()
def test_outputs_of_layers_are_seen(tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3))
    X, y = torch.rand(60, 1, 6, 6, generator=g), torch.randint(3, (60,), generator=g)
    model, report = actgp.convert(network, X, y, layers=("0",), generator=g)
    z = model.backbone(X)[:, :-3]
    assert z.shape == (60, 10)
    shallow, last = network[0](X).mean((2, 3)), network[:4](X)
    torch.testing.assert_close(z[:, :5], 2 * shallow / shallow.norm(dim=1, keepdim=True))
    torch.testing.assert_close(z[:, 5:], 2 * last / last.norm(dim=1, keepdim=True))
    assert report.sees == "what layers 0 give and the 5 features that enter layer 4"
    model.save(tmp_path / "model")
    assert torch.equal(actgp.load(tmp_path / "model", backbone=network).mean(X), model.mean(X))


def test_layers_that_give_no_vectors_are_refused() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.Flatten(0), nn.Unflatten(0, (-1, 4)), nn.Linear(4, 2))
    X, y = torch.randn(20, 3), torch.randint(2, (20,))
    with pytest.raises(
        ValueError, match="layers must be names of modules in the network, got 'last'; choose among 0, 1"
    ):
        actgp.convert(network, X, y, layers=("0", "last"))
    with pytest.raises(ValueError, match=r"must give a tensor \[N, C, …\] when .*, got shape \[80\] from '1'; name"):
        actgp.convert(network, X, y, layers=("1",))
