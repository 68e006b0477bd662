"""The form that makes a layer forget: its moments, its draws, and where it leads."""

from pathlib import Path

import pytest
import torch
from gpytorch.kernels import RBFKernel
from gpytorch.likelihoods import BernoulliLikelihood, GaussianLikelihood, SoftmaxLikelihood

import actgp
from actgp.layers import GPLayer
from actgp.layers.horizon import Horizon
from actgp.models.edge import BEYOND
from actgp.models.shares import shares_of_deep


def kernel() -> actgp.ArcCosine:
    found = actgp.ArcCosine(2).double()
    found.lengthscale, found.variance = torch.tensor([[0.5, 2.0]]), torch.tensor(3.0)
    return found


def layer(horizon: float | None, num_outputs: int = 1) -> GPLayer:
    g = torch.Generator().manual_seed(0)
    features = actgp.ActivatedFeatures(2, 12, generator=g)
    made = GPLayer(kernel(), features, num_outputs, horizon=horizon).double()
    with torch.no_grad():
        made.q.raw_mean.normal_(generator=g)
    return made


def test_drawn_forms_have_the_covariance(generator: torch.Generator) -> None:
    beyond = Horizon(kernel(), 5.0)
    X = 4 * torch.randn(3, 2, dtype=torch.float64, generator=generator)
    forms = torch.randn(40_000, 3, 3, dtype=torch.float64, generator=generator)
    drawn = beyond.through(X, forms)  # [N, P]
    expected = beyond.covariance(X).detach()
    torch.testing.assert_close(
        (drawn @ drawn.T / 40_000).detach(), expected, rtol=0.0, atol=0.05 * expected.max().item()
    )
    torch.testing.assert_close(beyond.variance(X), beyond.covariance(X).diagonal())
    r = beyond.kernel.polar(X).radius
    torch.testing.assert_close(beyond.variance(X), 3.0 * r**2 * (r / 5) ** 16)


def test_it_adds_variance_and_leaves_the_mean(generator: torch.Generator) -> None:
    X = torch.randn(6, 2, dtype=torch.float64, generator=generator)
    plain, with_horizon = layer(None, 2), layer(7.0, 2)
    added = Horizon(kernel(), 7.0)
    before, after = plain(X), with_horizon(X)
    torch.testing.assert_close(after.mean, before.mean)
    torch.testing.assert_close(after.variance, before.variance + added.variance(X)[:, None])
    joint = with_horizon.joint(X)
    torch.testing.assert_close(joint.covariance_matrix, plain.joint(X).covariance_matrix + added.covariance(X))
    torch.testing.assert_close(with_horizon.kl(), plain.kl())


def test_sampled_functions_have_it_too(generator: torch.Generator) -> None:
    model = actgp.DeepGP([layer(2.0)], GaussianLikelihood()).double()
    X = 3 * torch.randn(4, 2, dtype=torch.float64, generator=generator)
    drawn = torch.stack([f(X) for f in model.sample_functions(1_500, num_features=300, generator=generator)])
    expected = model.gp_layers[0](X).variance[:, 0]
    torch.testing.assert_close(drawn.var(0), expected.detach(), rtol=0.15, atol=0.0)


def test_far_away_a_class_becomes_as_probable_as_any_other() -> None:
    ray = torch.tensor([[0.6, -0.8]], dtype=torch.float64)
    doubts = {}
    for horizon in (None, 20.0):
        model = actgp.DeepGP([layer(horizon)], BernoulliLikelihood()).double()
        doubts[horizon] = [(model.predict(far * ray).mean - 0.5).abs().item() for far in (1e2, 1e4, 1e6)]
    assert min(doubts[None]) > 0.02
    assert doubts[None][2] == pytest.approx(doubts[None][1], rel=1e-3)  # however far one goes
    assert doubts[20.0][1] < 0.02 * doubts[None][1]
    assert doubts[20.0][2] < 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_beyond_what_numbers_can_hold_classes_are_still_as_probable(dtype: torch.dtype) -> None:
    likelihood = SoftmaxLikelihood(num_classes=3, mixing_weights=False)
    model = actgp.DeepGP([layer(20.0, 3)], likelihood).to(dtype)
    far = {torch.float32: 1e12, torch.float64: 1e100}[dtype] * torch.tensor([[0.6, -0.8]], dtype=dtype)
    torch.testing.assert_close(
        model.predict(far).probabilities, torch.full((1, 3), 1 / 3, dtype=dtype), atol=0.02, rtol=0
    )


def test_shares_and_files_know_it(tmp_path: Path, generator: torch.Generator) -> None:
    X = torch.randn(20, 2, dtype=torch.float64, generator=generator)
    model = actgp.deep_gp(
        2, num_layers=2, num_inducing=10, layers=actgp.Layers(horizon=4.0), generator=generator
    ).double()
    assert [part.horizon for part in model.gp_layers] == [None, 4.0]
    without = actgp.deep_gp(2, num_layers=2, num_inducing=10, generator=generator).double()
    without.load_state_dict(model.state_dict())
    assert shares_of_deep(model, X).layers[1].unexplained > shares_of_deep(without, X).layers[1].unexplained
    model.save(tmp_path / "model.actgp")
    again = actgp.load(tmp_path / "model.actgp")
    torch.testing.assert_close(again.predict(X).variance, model.predict(X).variance)


@pytest.mark.parametrize("depth", [1, 3])
def test_the_data_say_where_it_is(depth: int, generator: torch.Generator) -> None:
    X = torch.randn(200, 2, generator=generator)
    X = X / X.norm(dim=1, keepdim=True).clamp_min(1.0) + 0.1  # within a disc
    model = actgp.deep_gp(2, 3, depth, 16, likelihood=SoftmaxLikelihood(num_classes=3, mixing_weights=False))
    *_, last = model.gp_layers
    with torch.no_grad():
        last.q.raw_mean.normal_(generator=generator)
        last.q.raw_mean.mul_(3)
    before, mean = last(model.hidden_means(X)[-1]).variance, model.mean(X)
    radius = actgp.forget_beyond(model, X)
    h = model.hidden_means(X)[-1]
    outermost = last.kernel.polar(h).radius.max()
    assert radius == last.horizon == pytest.approx(BEYOND * outermost.item())
    assert torch.equal(model.mean(X), mean)
    added = last(h).variance - before
    prior = last.kernel(h, diag=True).unsqueeze(-1)
    assert (added / prior).max().item() == pytest.approx(BEYOND**-16, rel=0.05)
    assert (added / prior).median().item() < 0.01
    edge = X[X.norm(dim=1) > 0.9]
    near, far = (model.predict(scale * edge, num_samples=5).probabilities for scale in (1, 100))
    assert (far - 1 / 3).abs().max() < 0.1 < (near - 1 / 3).abs().max()


def test_only_zonal_kernels_have_an_edge() -> None:
    model = actgp.DeepGP([GPLayer(RBFKernel(), actgp.InducingPoints(torch.randn(4, 2)))], GaussianLikelihood())
    with pytest.raises(TypeError, match="a horizon needs a zonal kernel, got RBFKernel; leave horizon=None"):
        actgp.forget_beyond(model, torch.randn(5, 2))


def test_it_needs_a_zonal_kernel_and_a_radius() -> None:
    Z = torch.randn(4, 2)
    with pytest.raises(TypeError, match="a horizon needs a zonal kernel, got RBFKernel; leave horizon=None"):
        GPLayer(RBFKernel(), actgp.InducingPoints(Z), horizon=3.0)
    with pytest.raises(ValueError, match="horizon must be positive and finite, got 0.0"):
        actgp.deep_gp(2, layers=actgp.Layers(horizon=0.0))
