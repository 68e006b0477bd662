"""Any network as the prior mean of a GP: the same outputs, before anything is trained, and a GP around them."""

import copy
from pathlib import Path

import pytest
import torch
from architectures import architectures
from gpytorch.likelihoods import BernoulliLikelihood
from gpytorch.likelihoods.poisson_likelihood import PoissonLikelihood
from torch import Tensor, nn
from torch.utils.data import DataLoader

import actgp
from actgp.convert.anchor import Sees, Sight
from actgp.several import call

ARCHITECTURES = architectures()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_mean_is_the_network(name: str) -> None:
    network, X = ARCHITECTURES[name]
    training = network.training
    model, report = actgp.convert(network, X, num_inducing=8)
    assert network.training == training
    network.eval()
    with torch.no_grad():
        expected = call(network, X)
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
    return trained_on(X, y), X, y


@torch.enable_grad()
def trained_on(X: Tensor, y: Tensor) -> nn.Module:
    network = nn.Sequential(nn.Linear(X.shape[1], 32), nn.ReLU(), nn.Linear(32, 1))
    optimiser = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(200):
        optimiser.zero_grad()
        (network(X) - y).square().mean().backward()
        optimiser.step()
    return network


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
        assert error <= 1.02 * (network(new)[:, 0] - truth).square().mean().sqrt()
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


def other_weights(name: str) -> nn.Module:
    """A network of that architecture, with weights of its own."""
    network = copy.deepcopy(ARCHITECTURES[name][0])
    for parameter in network.parameters():
        parameter.data.normal_()
    return network


@pytest.mark.parametrize("name", ["relu", "residual", "linear", "two inputs", "by name", "table", "data parallel"])
def test_a_file_is_loaded_with_the_network_itself(name: str, tmp_path: Path) -> None:
    network, X = ARCHITECTURES[name]
    model, _ = actgp.convert(network, X, num_inducing=6)
    model.save(tmp_path / "model")
    expected = model.predict(X)
    given = other_weights(name)
    before = copy.deepcopy(given.state_dict())
    for backbone in (given, actgp.convert(given, X, num_inducing=6)[0].backbone):
        loaded = actgp.load(tmp_path / "model", backbone=backbone)
        assert torch.equal(loaded.predict(X).mean, expected.mean)
        assert torch.equal(loaded.predict(X).epistemic, expected.epistemic)
        assert all(not p.requires_grad for p in loaded.backbone.parameters())
    assert all(torch.equal(values, before[key]) for key, values in given.state_dict().items())


def test_a_file_of_what_was_selected_needs_the_backbone(tmp_path: Path) -> None:
    network, X = Doubled(), torch.randn(20, 3)
    model, _ = actgp.convert(network, X, num_inducing=6, select=lambda given: given["outputs"])
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="converted with select= must be loaded with the backbone .* got the Doubled"):
        actgp.load(tmp_path / "model", backbone=network)
    assert torch.equal(actgp.load(tmp_path / "model", backbone=copy.deepcopy(model.backbone)).mean(X), model.mean(X))
    with pytest.raises(ValueError, match="the backbone must have the structure of the one that was saved"):
        other, _ = actgp.convert(ARCHITECTURES["relu"][0], ARCHITECTURES["relu"][1], num_inducing=6)
        other.save(tmp_path / "other")
        actgp.load(tmp_path / "other", backbone=ARCHITECTURES["elu"][0][0])


def test_what_says_what_a_gp_sees_is_checked() -> None:
    bytes_ = torch.tensor(list(b"nothing"), dtype=torch.uint8)
    with pytest.raises(ValueError, match="must say what the GP of a converted network sees, got what cannot be read"):
        Sight.decoded(bytes_)
    sight = Sight("head.2", ("numbers", 1), ("body.0",), directions=True, selects=False)
    assert Sight.decoded(sight.encoded()) == sight


class Doubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"outputs": self.linear(x.tanh()), "loss": x.sum()}


def test_what_a_gp_sees_of_each_network() -> None:
    for name, inputs, head, features in (
        ("relu", 6, "2", 16),
        ("linear", 6, "", 0),  # what enters the Linear layer are the inputs: once is enough
        ("compiled", 6, "2", 16),
        ("data parallel", 6, "2", 16),
        ("scripted", 6, "", 0),
        ("two inputs", 6, "head", 10),
        ("two vectors", 9, "", 0),
        ("by name", 4, "head", 6),
        ("table", 6, "body.2", 8),
        ("many columns", 0, "2", 4),
    ):
        network, X = ARCHITECTURES[name]
        model, report = actgp.convert(network, X, num_inducing=6)
        assert (report.num_inputs, report.head, report.num_features) == (inputs, head, features), name
        assert model.gp_layers[0].kernel.input_dim == (inputs + features or 1), name


@pytest.mark.parametrize(
    ("sees", "inputs", "features", "said"),
    [
        ("inputs and features", 6, 16, "6 inputs and the 16 features that enter layer 2"),
        ("inputs", 6, 0, "6 inputs"),
        ("features", 0, 16, "the 16 features that enter layer 2"),
        ("outputs", 0, 0, "its outputs"),
    ],
)
def test_what_a_gp_sees_can_be_chosen(sees: Sees, inputs: int, features: int, said: str, tmp_path: Path) -> None:
    network, X = ARCHITECTURES["relu"]
    model, report = actgp.convert(network, X, sees=sees, num_inducing=6)
    assert (report.num_inputs, report.num_features, report.sees) == (inputs, features, said)
    assert model.gp_layers[0].kernel.input_dim == (inputs + features or 1)
    torch.testing.assert_close(model.mean(X), network(X)[:, 0].detach().view_as(model.mean(X)))
    model.save(tmp_path / "model")
    loaded = actgp.load(tmp_path / "model", backbone=network)
    assert torch.equal(loaded.predict(X).epistemic, model.predict(X).epistemic)


def test_what_a_gp_cannot_see_is_refused() -> None:
    network, X = ARCHITECTURES["convolution"]
    with pytest.raises(
        ValueError, match=r"for sees='inputs', X must be matrices .* got \[\d+, .*\]; choose 'features'"
    ):
        actgp.convert(network, X, sees="inputs")
    network, X = ARCHITECTURES["scripted"]
    with pytest.raises(
        ValueError, match="must call its last Linear layer once, .* no such layer in .*; choose 'inputs'"
    ):
        actgp.convert(network, X, sees="features")
    with pytest.raises(ValueError, match=r"sees must be one of .*, got 'all'; choose one of those"):
        actgp.convert(network, X, sees="all")  # type: ignore[arg-type]


@torch.no_grad()
def test_a_regression_is_less_sure_of_what_is_unlike_the_data(generator: torch.Generator) -> None:
    X = torch.randn(400, 1, generator=generator) @ torch.ones(1, 4) + 0.2 * torch.randn(400, 4, generator=generator)
    y = X.sum(1, keepdim=True).sin() + 0.1 * torch.randn(400, 1, generator=generator)
    network = trained_on(X[:300], y[:300])
    model, _ = actgp.convert(network, X[:300], y[:300], generator=generator)
    actgp.fit(model, X[:300], y[:300], held_out=(X[300:], y[300:]), progress=False)
    new = torch.randn(300, 1, generator=generator) @ torch.ones(1, 4) + 0.2 * torch.randn(300, 4, generator=generator)
    mixed = torch.stack([column[torch.randperm(300, generator=generator)] for column in new.T], dim=1)
    near, apart, far, farther = (model.predict(rows) for rows in (new, mixed, 5 * new, 25 * new))
    assert apart.epistemic.median() > 1.5 * near.epistemic.median()
    assert far.epistemic.median() > 3 * near.epistemic.median()
    assert farther.epistemic.median() > 10 * far.epistemic.median()  # in the end with the square of the distance
    assert far.variance.median() > near.variance.median()
    assert farther.variance.median() > 3 * near.variance.median()


@pytest.mark.parametrize("name", ["two inputs", "table"])
def test_several_inputs_go_all_the_way(name: str, generator: torch.Generator) -> None:
    network, X = ARCHITECTURES[name]
    y = call(network, X).detach() + 0.1 * torch.randn(call(network, X).shape, generator=generator)
    model, _ = actgp.convert(network, X, y, num_inducing=8)
    recipe = actgp.Recipe(network_steps=0, num_steps=5, objective="elbo", num_samples=1)
    actgp.fit(model, X, y, recipe, held_out=(X, y), progress=False)
    whole = model.predict(X)
    assert torch.isfinite(whole.log_prob(y)).all()
    part = {key: values[3:7] for key, values in X.items()} if isinstance(X, dict) else tuple(v[3:7] for v in X)
    torch.testing.assert_close(model.predict(part).mean, whole.mean[3:7])
    torch.testing.assert_close(model.network()(X), model.mean(X))
    (function,) = model.sample_functions(1, num_features=20, generator=generator)
    assert function(X).shape == (len(y),)


def test_inputs_that_do_not_fit_together_are_refused() -> None:
    network, (rows, images) = ARCHITECTURES["two inputs"]
    with pytest.raises(ValueError, match=r"the inputs of a network must have as many rows.*, got \[24, 23\]; align"):
        actgp.convert(network, (rows, images[:23]))
    with pytest.raises(TypeError, match="a tuple or dictionary of tensors, got a tuple of Tensor, list; convert them"):
        actgp.convert(network, (rows, [1.0] * 24))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must have names of the network's arguments as keys, got \[0, 1\]; name them"):
        actgp.convert(network, {0: rows, 1: images})  # type: ignore[dict-item]
    model, _ = actgp.convert(network, (rows, images), num_inducing=6)
    with pytest.raises(ValueError, match="X must be finite, got 1 NaN"):
        model.predict((torch.cat([torch.full((1, 6), torch.nan)[:, :1], rows[:1, 1:]], dim=1), images[:1]))
    model.backbone.requires_grad_(True)
    with pytest.raises(ValueError, match="several inputs need a backbone that is frozen, as that of convert is, got o"):
        actgp.fit(model, (rows, images), torch.zeros(24), progress=False)


@pytest.mark.parametrize("name", ["relu", "two inputs"])
def test_batches_of_a_loader_are_the_same_as_all_rows(name: str) -> None:
    network, X = ARCHITECTURES[name]
    y = call(network, X).detach() + 0.1
    parts = X if isinstance(X, tuple) else (X,)
    batches = [tuple(values[i : i + 9] for values in (*parts, y)) for i in range(0, len(y), 9)]
    pairs = [((batch[0] if len(parts) == 1 else batch[:-1]), batch[-1]) for batch in batches]
    loader = DataLoader(pairs, batch_size=None)  # type: ignore[arg-type]
    one, first = actgp.convert(network, X, y, num_inducing=5, generator=torch.Generator().manual_seed(0))
    other, second = actgp.convert(network, loader, num_inducing=5, generator=torch.Generator().manual_seed(0))
    assert first.rmse == pytest.approx(second.rmse)
    torch.testing.assert_close(one.predict(X).variance, other.predict(X).variance)
    with pytest.raises(ValueError, match="a DataLoader gives X and y, got y again; leave it out"):
        actgp.convert(network, loader, y)
    with pytest.raises(TypeError, match=r"a DataLoader must give pairs \(X, y\), y a tensor, got Tensor; use e.g."):
        actgp.convert(network, DataLoader([y[:9], y[9:18]], batch_size=None))  # type: ignore[arg-type]


def test_one_logit_is_that_of_the_network(generator: torch.Generator) -> None:
    network, X = ARCHITECTURES["mish"]
    labels = (torch.rand(len(X), generator=generator) < 0.5).long()
    model, report = actgp.convert(network, X, labels, num_inducing=8)
    assert isinstance(model.likelihood, actgp.BernoulliLogitLikelihood)
    assert report.rmse is None
    model.gp_layers[0].kernel.variance = 1e-12  # without a variance, probabilities are the network's
    with torch.no_grad():
        model.gp_layers[0].q.assign(model.gp_layers[0].q.mean, model.gp_layers[0].q.scale_tril * 1e-6)
        p = model.predict(X).probabilities
        torch.testing.assert_close(p[:, 1], network(X)[:, 0].sigmoid(), rtol=1e-5, atol=1e-6)
    recipe = actgp.Recipe(network_steps=0, num_steps=3, objective="elbo", num_samples=1)
    actgp.fit(model, X, labels, recipe, progress=False)
    torch.testing.assert_close(model.predict(X).probabilities.sum(1), torch.ones(len(X)))


def test_logarithms_of_rates_are_those_of_counts(generator: torch.Generator) -> None:
    network, X = ARCHITECTURES["elu"]
    with torch.no_grad():
        counts = torch.poisson(network(X)[:, 0].exp(), generator=generator)
    model, _ = actgp.convert(network, X, counts, likelihood=PoissonLikelihood(), num_inducing=8)
    torch.testing.assert_close(model.mean(X), network(X).detach())
    recipe = actgp.Recipe(network_steps=0, num_steps=3, objective="elbo", num_samples=1)
    actgp.fit(model, X, counts, recipe, progress=False)
    prediction = model.predict(X)
    assert (prediction.mean > 0).all()
    assert torch.isfinite(prediction.log_prob(counts)).all()


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
    with pytest.raises(TypeError, match="X must be a tensor, or a tuple or dictionary of tensors, got ndarray; conv"):
        actgp.convert(network, X.numpy())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"X must have shape \[N, …\] with at least 10 rows, got \[6\]; pass some"):
        actgp.convert(network, X[0])
    with pytest.raises(ValueError, match="is converted with at least 10 rows of X, got 5; pass some of the inputs"):
        actgp.convert(network, X[:5])
    with pytest.raises(TypeError, match="X must have the precision of the model, float32, got float64"):
        actgp.convert(network, X.double())
    with pytest.raises(ValueError, match=r"must be the labels 0 and 1, whose logit it gives, got \[2\]; for counts"):
        actgp.convert(network, X, torch.full((len(X),), 2))
    with pytest.raises(ValueError, match=r"y must have shape \[40\] or \[40, 1\], one row for each row of X, got"):
        actgp.convert(network, X, torch.ones(39))
    with torch.no_grad():  # a network without an error
        actgp.convert(network, X, network(X))
    model, _ = actgp.convert(network, X, torch.ones(len(X)), likelihood=BernoulliLikelihood())
    assert model.predict(X).probabilities.shape == (len(X), 2)
