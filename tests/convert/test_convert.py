"""Any network as the prior mean of a GP: the same outputs, before anything is trained, and a GP around them."""

from pathlib import Path

import pytest
import torch
from architectures import architectures
from gpytorch.likelihoods import BernoulliLikelihood
from torch import Tensor, nn

import actgp

ARCHITECTURES = architectures()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_mean_is_the_network(name: str) -> None:
    network, X = ARCHITECTURES[name]
    training = network.training
    model, report = actgp.convert(network, X, num_inducing=8)
    assert network.training == training
    network.eval()
    with torch.no_grad():
        expected = network(X)
    network.train(training)
    mean = model.mean(X)
    assert mean.shape == expected.shape
    torch.testing.assert_close(mean, expected, rtol=0, atol=4e-7 * expected.abs().max().item())
    torch.testing.assert_close(model.network()(X), expected, rtol=0, atol=4e-7 * expected.abs().max().item())
    assert report.difference <= 4e-7 * expected.abs().max()
    assert type(network).__name__ in str(report)
    prediction = model.predict(X)
    torch.testing.assert_close(prediction.latent_mean.reshape(expected.shape), expected)
    assert (prediction.epistemic > 0).all()
    assert all(not p.requires_grad for p in model.backbone.parameters())


def trained(generator: torch.Generator, N: int = 300) -> tuple[nn.Module, Tensor, Tensor]:
    X = torch.randn(N, 2, generator=generator)
    y = (torch.sin(2 * X[:, 0]) + 0.1 * torch.randn(N, generator=generator))[:, None]
    network = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
    optimiser = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(200):
        optimiser.zero_grad()
        (network(X) - y).square().mean().backward()
        optimiser.step()
    return network, X, y


def test_a_fit_takes_the_network_along_and_says_where_it_is_to_be_trusted(generator: torch.Generator) -> None:
    network, X, y = trained(generator)
    before = {name: values.clone() for name, values in network.state_dict().items()}
    model, report = actgp.convert(network, X[:200], y[:200], num_inducing=30)
    assert report.rmse == pytest.approx((network(X[:200]) - y[:200]).square().mean().sqrt().item(), rel=1e-5)
    recipe = actgp.Recipe(network_steps=0, num_steps=100, objective="elbo", num_samples=1)
    actgp.fit(model, X[:200], y[:200], recipe, held_out=(X[200:], y[200:]), progress=False)
    assert all(torch.equal(values, before[name]) for name, values in network.state_dict().items())
    new = torch.randn(500, 2, generator=generator)
    truth = torch.sin(2 * new[:, 0])
    prediction = model.predict(new)
    error = (prediction.mean - truth).square().mean().sqrt()
    with torch.no_grad():
        assert error <= 1.01 * (network(new)[:, 0] - truth).square().mean().sqrt()
    lower, upper = prediction.interval(0.9)
    noisy = truth + 0.1 * torch.randn(500, generator=generator)
    assert 0.8 < ((noisy > lower) & (noisy < upper)).double().mean() < 0.99
    assert model.predict(20 * new).epistemic.mean() > 5 * prediction.epistemic.mean()


def test_the_default_recipe_of_a_converted_network_has_no_network_stage() -> None:
    network, X = ARCHITECTURES["relu"]
    recipe = actgp.Recipe.suited_to(actgp.convert(network, X)[0])
    assert (recipe.network_steps, recipe.objective) == (0, "elbo")


def test_labels_make_a_softmax(generator: torch.Generator) -> None:
    network, X = ARCHITECTURES["convolution"]
    labels = torch.randint(0, 10, (len(X),), generator=generator)
    model, report = actgp.convert(network, X, labels, num_inducing=8)
    assert report.rmse is None
    with torch.no_grad():
        torch.testing.assert_close(model.mean(X), network(X))
    assert model.predict(X).probabilities.shape == (len(X), 10)
    recipe = actgp.Recipe(network_steps=0, num_steps=3, objective="elbo", num_samples=1)
    actgp.fit(model, X, labels, recipe, progress=False)


def test_what_more_a_network_gives_is_left_aside() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": x.sum(1, keepdim=True), "loss": x.sum()}

    X = torch.randn(20, 3)
    model, _ = actgp.convert(Pair(), X, select=lambda given: given["logits"])
    torch.testing.assert_close(model.mean(X), X.sum(1, keepdim=True))
    with pytest.raises(ValueError, match=r"must give a tensor \[N, P\] or \[N\], here 20 rows, got dict; pass select="):
        actgp.convert(Pair(), X)


def test_functions_are_drawn_around_the_network(generator: torch.Generator) -> None:
    network, X = ARCHITECTURES["relu"]
    model, _ = actgp.convert(network, X, num_inducing=20)
    with torch.no_grad():
        drawn = torch.stack([f(X) for f in model.sample_functions(200, num_features=200, generator=generator)])
        torch.testing.assert_close(drawn.mean(0), network(X)[:, 0], rtol=0, atol=4 * drawn.std(0).max().item() / 14)


def test_a_file_holds_its_tensors(tmp_path: Path) -> None:
    network, X = ARCHITECTURES["residual"]
    model, _ = actgp.convert(network, X, torch.arange(len(X)) % 4, num_inducing=6)
    model.save(tmp_path / "model")
    other, _ = actgp.convert(ARCHITECTURES["residual"][0].__class__(), X, torch.arange(len(X)) % 4, num_inducing=6)
    loaded = actgp.load(tmp_path / "model", backbone=other.backbone)
    assert torch.equal(loaded.predict(X).mean, model.predict(X).mean)


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.dropout(x, 0.5)[:, :1]


class OfTheBatch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0))[:, :1]


class NotFinite(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - 10).log()[:, :1]


class Scalar(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum()


@pytest.mark.parametrize(
    ("network", "match"),
    [
        (Random(), "must give the same outputs twice, got others the second time, by up to .*; switch off what is ran"),
        (OfTheBatch(), "same outputs whatever the rows beside it are, got a difference of .*; switch off statistics"),
        (
            NotFinite(),
            "outputs must be finite, got NaN or infinity among those of the first rows of X; look for",
        ),
        (Scalar(), r"must give a tensor \[N, P\] or \[N\], here 20 rows, got shape \[\]; pass select="),
    ],
)
def test_networks_that_cannot_be_used_are_refused(network: nn.Module, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        actgp.convert(network, torch.randn(20, 3))


def test_arguments_that_cannot_be_used_are_refused() -> None:
    network, X = ARCHITECTURES["relu"]
    with pytest.raises(TypeError, match="network must be a torch.nn.Module, got builtin_function.*; wrap the"):
        actgp.convert(torch.sin, X)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="X must be a tensor, a batch of inputs of the network, got list; wrap a"):
        actgp.convert(network, [X, X])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"X must have shape \[N, …\] with at least 10 rows, got \[5, 6\]; pass some"):
        actgp.convert(network, X[:5])
    with pytest.raises(TypeError, match="X must have the precision of the model, float32, got float64"):
        actgp.convert(network, X.double())
    with pytest.raises(ValueError, match="a network of one output needs a likelihood for labels, got none; pass e.g."):
        actgp.convert(network, X, torch.ones(len(X), dtype=torch.long))
    with pytest.raises(ValueError, match=r"y must have shape \[40\] or \[40, 1\], one row for each row of X, got"):
        actgp.convert(network, X, torch.ones(39))
    with torch.no_grad():  # a network without an error
        actgp.convert(network, X, network(X))
    model, _ = actgp.convert(network, X, torch.ones(len(X)), likelihood=BernoulliLikelihood())
    assert model.predict(X).probabilities.shape == (len(X), 2)
