"""A mixture is what its parts are, weighted."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import actgp
from actgp import Mixture
from actgp.models import Networks

D, K = 2, 3


def deep(input_dim: int, outputs: int, prior_mean: str, seed: int) -> actgp.DeepGP:
    g = torch.Generator().manual_seed(seed)
    features = actgp.InducingPoints(
        torch.randn(6, input_dim - (outputs if prior_mean == "carried" else 0), generator=g)
    )
    layer = actgp.GPLayer(actgp.ArcCosine(features.input_dim), features, outputs, prior_mean)  # type: ignore[arg-type]
    layer.q.raw_mean.data.normal_(generator=g)
    likelihood = actgp.ContaminatedGaussianLikelihood(input_dim=input_dim)
    likelihood.noise, likelihood.outlier_noise = 0.1 + 0.1 * seed, 2.0
    return actgp.DeepGP([layer], likelihood).double()


def mixed(outputs: int = 1) -> Mixture:
    g = torch.Generator().manual_seed(0)
    networks = Networks(K, D, outputs, width=8, generator=g)
    networks.last.data.normal_(generator=g)
    plain = [deep(D, outputs, "zero", 0), deep(D, outputs, "zero", 1)]
    weights = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    return Mixture(plain, [deep(D + outputs, outputs, "carried", 2)], weights, networks.double()).eval()


@pytest.fixture
def X() -> Tensor:
    return torch.randn(7, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_density_is_the_weighted_sum_of_the_members(outputs: int, X: Tensor) -> None:
    model, y = mixed(outputs), torch.randn(7, outputs, dtype=torch.float64)
    first, second, around = model.members
    behind = model.behind_networks(X)
    inside = torch.stack([around.predict(h).log_prob(y).exp() for h in behind]).mean(0)
    expected = 0.125 * first.predict(X).log_prob(y).exp() + 0.25 * second.predict(X).log_prob(y).exp() + 0.625 * inside
    assert torch.allclose(model.predict(X).log_prob(y).exp(), expected)


@pytest.mark.parametrize("outputs", [1, 2])
def test_moments_are_those_of_the_normal_components(outputs: int, X: Tensor) -> None:
    prediction = mixed(outputs).predict(X)
    weights, means, variances = prediction.normal_components()  # [C], [C, N, P]
    assert weights.sum().item() == pytest.approx(1.0)
    mean = torch.tensordot(weights, means, dims=1)
    variance = torch.tensordot(weights, variances + (means - mean).square(), dims=1)
    assert torch.allclose(prediction.mean.reshape(7, -1), mean)
    assert torch.allclose(prediction.variance.reshape(7, -1), variance)
    assert (prediction.epistemic > 0).all()
    assert torch.allclose(prediction.variance, prediction.aleatoric + prediction.epistemic)


def test_an_interval_holds_what_it_says(X: Tensor) -> None:
    prediction = mixed().predict(X)
    weights, means, variances = (values.squeeze(-1) for values in prediction.normal_components())
    for level in (0.5, 0.95):
        for end, p in zip(prediction.interval(level), ((1 - level) / 2, (1 + level) / 2), strict=True):
            below = weights @ torch.special.ndtr((end - means) / variances.sqrt())
            assert torch.allclose(below, torch.full_like(below, p), atol=1e-6)
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 1.0"):
        prediction.interval(1.0)


def test_the_mean_is_that_of_the_prediction(X: Tensor) -> None:
    model = mixed()
    assert torch.allclose(model.mean(X), model.predict(X).mean)  # of members of one layer


@pytest.mark.parametrize("outputs", [1, 2])
def test_means_alone_are_those_of_the_prediction(outputs: int, X: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    model = mixed(outputs)
    for members, input_dim in ((model.given_inputs, D), (model.around_networks, D + outputs)):
        first, last = deep(input_dim, input_dim, "identity", 3), deep(input_dim, outputs, "zero", 4)
        members.append(actgp.DeepGP([*first.gp_layers, *last.gp_layers], last.likelihood).double())
    model.weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
    assert torch.allclose(model.predict_mean(X, 6), model.predict(X, 6).mean)
    one_layer = mixed(outputs)
    wanted = one_layer.predict(X).mean
    monkeypatch.setattr(actgp.DeepGP, "predict", lambda *_: pytest.fail("members of one layer need no variances"))
    assert torch.allclose(one_layer.predict_mean(X), wanted)


def test_what_a_member_adds_to_networks_is_computed_once_for_all(X: Tensor) -> None:
    model = mixed()
    *_, around = model.members
    *_, part = model.predict(X).parts
    for k, h in enumerate(model.behind_networks(X)):
        alone = around.predict(h)
        assert torch.allclose(part.component_means[k], alone.component_means[0])
        assert torch.allclose(part.component_variances[k], alone.component_variances[0])
        assert part.relative_noise is not None
        assert alone.relative_noise is not None
        assert torch.allclose(part.relative_noise[k], alone.relative_noise[0])


def test_functions_have_the_moments_of_the_prediction(X: Tensor) -> None:
    model = mixed()
    functions = model.sample_functions(400, num_features=200, generator=torch.Generator().manual_seed(0))
    values = torch.stack([f(X) for f in functions])  # [400, N]
    assert torch.equal(values[0], functions[0](X))
    prediction = model.predict(X)
    error = (prediction.epistemic / len(functions)).sqrt()
    assert ((values.mean(0) - prediction.mean).abs() < 5 * error).all()
    assert torch.allclose(values.var(0), prediction.epistemic, rtol=0.5)


def test_files_give_the_same_predictions(X: Tensor, tmp_path: Path) -> None:
    model = mixed(2)
    model.save(tmp_path / "model.actgp")
    loaded = actgp.load(tmp_path / "model.actgp")
    assert isinstance(loaded, Mixture)
    ours, theirs = model.predict(X), loaded.predict(X)
    for a, b in zip(ours.normal_components(), theirs.normal_components(), strict=True):
        assert torch.equal(a, b)


def test_what_does_not_fit_is_refused(X: Tensor) -> None:
    plain, around = deep(D, 1, "zero", 0), deep(D + 1, 1, "carried", 1)
    for weights in ([1.0, 2.0], [-1.0], []):
        with pytest.raises(ValueError, match="a weight for each that is not negative, got 1 members and weights"):
            Mixture([plain], [], torch.tensor(weights))
    with pytest.raises(ValueError, match="members around networks need networks, got None"):
        Mixture([plain], [around], torch.ones(2))
    with pytest.raises(ValueError, match="X must have 2 columns, got 1"):
        mixed().predict(X[:, :1])


def test_networks_side_by_side_are_networks_by_themselves() -> None:
    g = torch.Generator().manual_seed(0)
    networks = Networks(K, D, 2, width=8, num_inner=2, generator=g)
    networks.last.data.normal_(generator=g)
    X = torch.randn(5, D, generator=g)
    X[0, 0] = 1e6  # is bent
    together = networks(X)
    assert together.shape == (K, 5, 2)
    assert torch.isfinite(together).all()
    assert torch.allclose(together, networks(X.expand(K, 5, D)))
    other = torch.randn(5, D, generator=g)
    mixed_rows = torch.stack([X, other, X])
    assert torch.allclose(networks(mixed_rows)[1], networks(other)[1], atol=1e-6)
    assert not torch.allclose(together[0], together[1])


def test_groups_are_blended_by_their_shares() -> None:
    g = torch.Generator().manual_seed(0)
    networks = Networks(2 * K, D, 1, width=8, num_groups=2, generator=g)
    networks.last.data.normal_(generator=g)
    networks.shares.copy_(torch.tensor([0.25, 0.75]))
    X = torch.randn(5, D, generator=g)
    first, second = networks(X).split(K)
    assert networks.num_blends == K
    assert torch.allclose(networks.blended(X), 0.25 * first + 0.75 * second, atol=1e-6)
