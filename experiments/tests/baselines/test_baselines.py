"""All contestants answer the same protocol, learn something, and give the same numbers for the same seed."""

from typing import Any

import pytest
import torch

import actgp
from actgp_experiments.baselines import LastLayerLaplace, Network, OurDeepGP, Settings, ShallowGP, last_layer_laplace
from actgp_experiments.baselines import network as network_module
from actgp_experiments.baselines.deep import inducing_inputs
from actgp_experiments.baselines.network import build_network
from actgp_experiments.metrics import scores
from actgp_experiments.uci import CONTESTANTS

SMALL = Settings(
    num_layers=2, units=16, network_steps=300, posterior_steps=40, exact_steps=20, members=2, samples=5, patience=100
)


def data(N: int = 240) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(N, 2, generator=g)
    y = torch.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * torch.randn(N, generator=g)
    return X, (y - y.mean()) / y.std()


@pytest.mark.parametrize("name", list(CONTESTANTS))
def test_contestants_learn_and_reproduce(name: str) -> None:
    X, y = data()
    first, again = (CONTESTANTS[name](SMALL, 3) for _ in range(2))
    first.fit(X[:200], y[:200])
    predictive = first.predict(X[200:])
    assert predictive.batch_shape == (40,)
    metrics = scores(predictive, y[200:].to(predictive.mean)).metrics
    assert metrics["rmse"] < 0.75  # the mean alone has 1
    assert all(torch.isfinite(torch.tensor(value)) for value in metrics.values())
    again.fit(X[:200], y[:200])
    assert scores(again.predict(X[200:]), y[200:].to(predictive.mean)).metrics == metrics


def test_a_network_is_sure_by_its_training_error_and_scaled_by_its_held_out_error() -> None:
    X, y = data()
    trained, scaled = Network(SMALL, 0, "training"), Network(SMALL, 0, "held-out")
    trained.fit(X, y)
    scaled.fit(X, y)
    assert torch.equal(trained.predict(X).mean, scaled.predict(X).mean)
    assert trained.predict(X).variance.unique().numel() == 1
    assert not torch.equal(trained.predict(X).variance, scaled.predict(X).variance)


def test_the_network_has_the_shape_of_the_deep_gp() -> None:
    network = build_network(5, Settings())
    widths = [(layer.in_features, layer.out_features) for layer in network if isinstance(layer, torch.nn.Linear)]
    assert widths == [(5, 128), (128, 5), (5, 128), (128, 5), (5, 128), (128, 1)]


def test_our_model_is_the_librarys_default() -> None:
    X, y = data()
    model = OurDeepGP(SMALL, 0)
    model.fit(X, y)
    assert [layer.prior_mean for layer in model.model.gp_layers] == ["identity", "zero"]
    assert [layer.features.blocks for layer in model.model.gp_layers] == [(64, 64), (64, 64)]
    alone = OurDeepGP(SMALL, 0, {"num_layers": 1, "layers": actgp.Layers(num_points=0)})
    alone.fit(X, y)
    assert isinstance(alone.model.gp_layers[0].features, actgp.ActivatedFeatures)


def test_exact_regression_refuses_too_many_rows() -> None:
    X, y = data()
    with pytest.raises(ValueError, match="exact regression is for at most 100 rows, got 240; use sparse=True"):
        ShallowGP(Settings(largest_exact=100), 0, sparse=False).fit(X, y)


def test_laplace_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_layer_laplace, "laplace", None)
    with pytest.raises(ImportError, match="needs laplace-torch, got none of it; install it with pip"):
        LastLayerLaplace(SMALL, 0)


def test_inducing_inputs_are_apart_also_where_rows_repeat() -> None:
    X = torch.zeros(300, 2)
    X[:10] = torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
    Z = inducing_inputs(X, 20, 0)
    assert Z.shape == (20, 2)
    assert torch.pdist(Z).min() > 0
    assert torch.allclose(inducing_inputs(X[:10], 20, 0), X[:10], atol=0.02)  # no more of them than rows


def test_a_network_that_has_learnt_nothing_starts_anew_at_a_lower_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data()
    rates = []
    once = network_module.descend

    def train(network: torch.nn.Module, *others: Any) -> None:
        rates.append(others[-1])
        if len(rates) == 1:  # lost
            torch.nn.init.zeros_(list(network.parameters())[-2])
        else:
            once(network, *others)

    monkeypatch.setattr(network_module, "descend", train)
    model = Network(SMALL, 0, "training")
    model.fit(X, y)
    assert rates == [pytest.approx(SMALL.rate), pytest.approx(0.3 * SMALL.rate)]
    assert model.network[-1].weight.any()
    rates.clear()
    Network(SMALL, 0, "training").fit(X, torch.randn(len(X), generator=torch.Generator().manual_seed(9)))
    assert len(rates) == 3  # nothing to learn, but it was tried


@pytest.mark.parametrize("name", ["NN", "NN+Dropout", "Deep ensemble"])
def test_the_callers_random_numbers_are_left_alone(name: str) -> None:
    X = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(7)
    wanted = torch.get_rng_state()
    model = CONTESTANTS[name](Settings(units=4, network_steps=2, posterior_steps=1), 0)
    model.fit(X, X[:, 0])
    model.predict(X)
    assert torch.equal(torch.get_rng_state(), wanted)
