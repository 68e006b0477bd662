"""Logits that are believed less away from the data."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import actgp
from actgp.convert.forgetting import EDGE, NEAR, PRICE, Forgetting, relative
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
    assert found.divisor(1.0) > 1
    assert "logits are divided by" in str(found)
    mean, before = model.mean(X), network(X)
    assert torch.equal(mean.argmax(1), before.argmax(1))
    assert log_likelihood(mean[500:], y[500:]) > log_likelihood(before[500:], y[500:]) + 0.1
    assert log_likelihood(mean[200:500], y[200:500]) > log_likelihood(before[200:500], y[200:500])


@torch.no_grad()
def test_far_away_hardly_anything_is_left(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    network, X, _ = trained
    model, found = softened(trained)
    assert found.beyond > 0
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
    rho = (u + NEAR) / (u.median() + NEAR)
    edge = rho.quantile(0.7)
    forgetting.numbers.copy_(torch.stack([torch.tensor(1.5), torch.tensor(0.2), torch.tensor(0.3), edge, u.median()]))
    e = (rho / edge - 1).clamp_min(0)
    assert (e > 0).any()
    assert (e == 0).any()
    centred = mu - mu.mean(1, keepdim=True)
    expected = mu / (1.5 * (1 + (0.2 * rho + 0.3 * e**2) * centred.square().sum(1)).sqrt())[:, None]
    torch.testing.assert_close(forgetting(z, mu), expected)
    forgetting.numbers[0] = 0.5
    sharper = mu * 2 ** (rho**-2).clamp_max(1)[:, None] / (expected.div(mu).reciprocal() / 1.5)
    torch.testing.assert_close(forgetting(z, mu), sharper)
    forgetting.numbers[0] = 1.5
    one = mu[:, :1] / (1.5 * (1 + (0.2 * rho + 0.3 * e**2) * mu[:, 0] ** 2).sqrt())[:, None]
    torch.testing.assert_close(forgetting(z, mu[:, :1]), one)


@torch.no_grad()
def test_a_network_that_is_right_about_itself_keeps_its_logits() -> None:
    X, _ = data(600)
    network = nn.Linear(8, 3)
    network.weight.mul_(3)
    y = torch.multinomial(network(X).softmax(1), 1, generator=torch.Generator().manual_seed(1))[:, 0]
    model, _ = actgp.convert(network, X[:200], y[:200])
    found = actgp.soften(model, X[200:], y[200:])
    assert 0.8 < found.divisor(1.0) < 1.25
    assert log_likelihood(model.mean(X[200:]), y[200:]) > log_likelihood(network(X[200:]), y[200:]) * (1 + PRICE)


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
    assert actgp.soften(model, X[200:], labels[200:]).divisor(1.0) > 1
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
    """Beyond the edge, where a hundredth of them are, they lose next to nothing; T and γ are worth their prior."""
    network, X, y = trained
    model, found = softened(trained)
    held, labels = X[200:500], y[200:500]
    forgetting = model.backbone.forgetting
    z = model.backbone(held)[:, :-3]
    u = forgetting.unlike(z)
    rho = relative(u, u.median())
    assert rho.quantile(EDGE).item() == pytest.approx(found.edge, rel=1e-3)
    with_all = log_likelihood(model.mean(held), labels)
    forgetting.numbers[2] = 0  # γ'
    without = log_likelihood(model.mean(held), labels)
    assert with_all > without * (1 + PRICE) - 1e-6
    assert without > log_likelihood(network(held), labels) + 0.05


@torch.no_grad()
def test_t_and_its_growth_are_the_most_probable_ones(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    _, X, y = trained
    model, found = softened(trained)
    forgetting, held, labels = model.backbone.forgetting, X[200:500], y[200:500]
    forgetting.numbers[2] = 0
    size = found.strength / forgetting.numbers[1].item()

    def value(T: float, strength: float) -> float:
        forgetting.numbers[:2] = torch.tensor([T, strength / size])
        prior = -math.log1p((math.log(T) / 0.15) ** 2) - strength
        return 300 * log_likelihood(model.mean(held), labels) + prior

    best = value(found.temperature, found.strength)
    for factor in (0.9, 1.1):
        assert value(found.temperature * factor, found.strength) < best + 1e-3
        assert value(found.temperature, found.strength * factor) < best + 1e-3


@torch.no_grad()
def test_sure_ones_become_surer_where_they_are_right() -> None:
    """A network whose logits are all half of what they ought to be."""
    X, _ = data(2_000)
    network = nn.Linear(8, 3)
    y = torch.multinomial((2 * network(X)).softmax(1), 1, generator=torch.Generator().manual_seed(1))[:, 0]
    model, _ = actgp.convert(network, X[:200], y[:200])
    found = actgp.soften(model, X[200:], y[200:])
    assert found.divisor(1.0) < 0.8


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


@torch.no_grad()
def test_a_model_tells_what_is_unlike_its_data(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    network, X, y = trained
    model, _ = actgp.convert(network, X[:200], y[:200], num_inducing=20)
    (layer,) = model.gp_layers
    torch.testing.assert_close(model.unexplained(X), layer.unexplained(model.backbone(X)))
    assert model.unexplained(30 * X).min() >= 0
    layer.horizon = 50.0
    h = model.backbone(X)
    prior, beyond = layer.kernel(h[:, :-3], diag=True), layer.beyond.variance(h[:, :-3])
    A = layer.whiten(h)
    torch.testing.assert_close(model.unexplained(X), 1 - A.square().sum(1) / (prior + beyond), rtol=1e-3, atol=1e-5)
    assert (model.unexplained(1e4 * X) > 0.999).all()
