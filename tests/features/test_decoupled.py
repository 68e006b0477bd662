"""Activations and inducing points together: the algebra of orthogonal decoupling, and what it must not change."""

import copy
from pathlib import Path

import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch.autograd import gradcheck

import actgp
from actgp.features import DecoupledFeatures, through_units, whitening


def features(M: int = 6, K: int = 4, D: int = 3, mean_from: str = "both") -> DecoupledFeatures:
    g = torch.Generator().manual_seed(0)
    activated = actgp.ActivatedFeatures(D, M, actgp.Softplus(3.0), generator=g)
    points = actgp.InducingPoints(torch.randn(K, D, generator=g))
    return DecoupledFeatures(activated, points, mean_from).double()


def kernel(D: int = 3) -> actgp.ArcCosine:
    made = actgp.ArcCosine(D).double()
    made.variance, made.lengthscale = 1.7, torch.tensor([[0.7, 1.3, 1.1]])
    return made


def inputs(N: int = 9, D: int = 3) -> torch.Tensor:
    return torch.randn(N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def filled(layer: actgp.GPLayer) -> actgp.GPLayer:
    g = torch.Generator().manual_seed(2)
    with torch.no_grad():
        layer.q.raw_mean.normal_(generator=g)
        layer.q.raw_scale_tril.normal_(generator=g).mul_(0.3)
    return layer.double()


def test_whitened_covariances_are_those_of_both_kinds_of_variables_together() -> None:
    both, k, X = features(), kernel(), inputs()
    found, _, units = whitening(both, k)
    R = actgp.GPLayer(k, both).inverse_cholesky()
    torch.testing.assert_close(R @ both.Kuu(k) @ R.T, torch.eye(10).double(), rtol=1e-6, atol=1e-6)
    A, prior = through_units(X, units, found)
    torch.testing.assert_close(A, both.Kuf(k, X).T @ R.T)
    torch.testing.assert_close(prior, k(X, diag=True))
    Q = both.Kuf(k, X).T @ torch.linalg.solve(both.Kuu(k), both.Kuf(k, X))
    torch.testing.assert_close(A @ A.T, Q, rtol=1e-5, atol=1e-7)


def test_points_explain_what_activations_leave_and_nothing_more_than_there_is() -> None:
    both, k, X = features(), kernel(), inputs()
    layers = [actgp.GPLayer(k, part, 1).double() for part in (both.activated, both.points, both)]
    with torch.no_grad():
        activated, points, together = (layer.unexplained(X) for layer in layers)
    assert (together < activated).all()
    assert (together < points).all()
    assert (together >= 0).all()
    with torch.no_grad():
        at_points = layers[2].unexplained(both.points.locations)
    assert at_points.max() < 1e-6  # there f is known once v is


def test_points_under_their_prior_change_nothing() -> None:
    both, k, X = features(), kernel(), inputs()
    plain = filled(actgp.GPLayer(k, both.activated, 2))
    layer = actgp.GPLayer(k, both, 2).double()
    with torch.no_grad():
        layer.q.mean[:6] = plain.q.mean
        layer.q.raw_scale_tril[:, :6, :6] = plain.q.raw_scale_tril
        for ours, theirs in zip(layer(X), plain(X), strict=True):
            torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(layer.kl(), plain.kl())


def test_moving_points_leaves_a_mean_from_activations_as_it_is() -> None:
    k, X = kernel(), inputs()
    layer = filled(actgp.GPLayer(k, features(mean_from="activations"), 2))
    before = layer(X)
    assert not layer.q.mean[6:].any()
    with torch.no_grad():
        layer.features.points.locations.add_(1.0)
    after = layer(X)
    torch.testing.assert_close(after.mean, before.mean)
    assert not torch.allclose(after.variance, before.variance)
    after.mean.sum().backward()
    assert not layer.q.raw_mean.grad[6:].any()


def test_the_bound_improves_with_points() -> None:
    g = torch.Generator().manual_seed(3)
    X = torch.randn(60, 3, dtype=torch.float64, generator=g)
    y = torch.sin(2 * X[:, 0]) + 0.1 * torch.randn(60, dtype=torch.float64, generator=g)
    activated = actgp.ActivatedFeatures(3, 6, actgp.Softplus(3.0), generator=g)
    bounds = [actgp.SGPR(X, y, kernel(), activated).elbo().item()]
    for K in (3, 10, 30):
        both = DecoupledFeatures(copy.deepcopy(activated), actgp.InducingPoints(X[:K].float()))
        bounds.append(actgp.SGPR(X, y, kernel(), both).elbo().item())
    assert bounds == sorted(bounds)
    assert bounds[-1] > bounds[0] + 1
    assert bounds[-1] < actgp.GPR(X, y, kernel()).log_evidence().item()


def test_units_with_the_kernel_as_activation_leave_classic_inducing_points() -> None:
    """g_m(x) = r s(ŵ_m · x̂) ∝ k(x, z_m) for the z_m in the direction ŵ_m: both kinds of variables are then points."""
    g = torch.Generator().manual_seed(4)
    k = actgp.SpectralKernel(3, [0.3, 0.4, 0.2, 0.1]).double()
    Z = torch.randn(9, 3, generator=g)
    activated = actgp.ActivatedFeatures(3, 4, actgp.CustomActivation(k.shape), num_levels=4)
    with torch.no_grad():
        activated.weights.copy_(torch.cat([Z[:4], torch.ones(4, 1)], dim=1))
    both, classic = DecoupledFeatures(activated, actgp.InducingPoints(Z[4:])), actgp.InducingPoints(Z)
    X, y = inputs(30), inputs(30)[:, 0].sin()
    bounds = [actgp.SGPR(X, y, k, chosen).elbo() for chosen in (both, classic)]
    torch.testing.assert_close(*bounds, rtol=1e-6, atol=1e-6)
    layers = [actgp.GPLayer(k, chosen, 1).double() for chosen in (both, classic)]
    torch.testing.assert_close(*(layer.unexplained(X) for layer in layers), rtol=1e-6, atol=1e-8)


def test_gradients_reach_points_and_weights() -> None:
    both, k, X = features(M=3, K=2), kernel(), inputs(3)
    layer = filled(actgp.GPLayer(k, both, 1))

    def variance(weights: torch.Tensor, locations: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        parameters = {"features.activated.weights": weights, "features.points.locations": locations}
        mean, var = torch.func.functional_call(layer, parameters, (x,))
        return mean + var

    weights, locations = both.activated.weights.detach().clone(), both.points.locations.detach().clone()
    assert gradcheck(variance, (weights.requires_grad_(), locations.requires_grad_(), X.requires_grad_()))


def test_q_is_independent_between_the_blocks_and_stays_so() -> None:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(250, 3, generator=g)
    y = torch.sin(2 * X[:, 0]) + 0.1 * torch.randn(250, generator=g)
    layer = actgp.GPLayer(actgp.ArcCosine(3), features().float(), 1)
    model = actgp.DeepGP([layer], GaussianLikelihood())
    before = model.elbo(X, y, 250).item()
    actgp.fit(model, X, y, actgp.Recipe(network_steps=50, num_steps=30, objective="elbo"), progress=False)
    S = layer.q.scale_tril[0]
    assert not S[6:, :6].any()
    assert S[6:, 6:].tril(-1).any()
    assert model.elbo(X, y, 250).item() > before
    torch.testing.assert_close(model.network()(X), model.mean(X), rtol=1e-4, atol=1e-4)


def test_they_are_saved_and_their_functions_drawn(tmp_path: Path) -> None:
    X = inputs()
    for mean_from in ("both", "activations"):
        model = actgp.DeepGP([filled(actgp.GPLayer(kernel(), features(mean_from=mean_from), 1))], GaussianLikelihood())
        model = model.double()
        model.save(tmp_path / "model.actgp")
        loaded = actgp.load(tmp_path / "model.actgp")
        assert torch.equal(loaded.predict(X).mean, model.predict(X).mean)
        assert loaded.gp_layers[0].features.mean_from == mean_from
        functions = model.sample_functions(400, generator=torch.Generator().manual_seed(0))
        values = torch.stack([f(X) for f in functions])
        marginals = model.gp_layers[0](X)
        error = (values.mean(0) - marginals.mean[:, 0]).abs() / marginals.variance[:, 0].sqrt()
        assert error.max().item() < 5 / 400**0.5
        torch.testing.assert_close(values.var(0), marginals.variance[:, 0], rtol=0.35, atol=1e-3)


def test_parts_must_fit() -> None:
    activated, points = actgp.ActivatedFeatures(3, 4), actgp.InducingPoints(torch.randn(2, 4))
    with pytest.raises(ValueError, match="must have the same input_dim, got 3 and 4; build both with the number"):
        DecoupledFeatures(activated, points)
    with pytest.raises(ValueError, match="mean_from must be one of"):
        DecoupledFeatures(activated, actgp.InducingPoints(torch.randn(2, 3)), "points")


def test_fit_places_points_where_the_network_takes_the_data() -> None:
    g = torch.Generator().manual_seed(0)
    X = 3 + 0.1 * torch.randn(250, 2, generator=g)  # far from where points are drawn
    y = torch.sin(20 * X[:, 0])
    model = actgp.deep_gp(2, num_layers=2, num_inducing=13, layers=actgp.Layers(num_points=5), generator=g)
    recipe = actgp.Recipe(network_steps=20, num_steps=1)
    result = actgp.fit(model, X, (y - y.mean()) / y.std(), recipe, generator=g, progress=False)
    reached = model.hidden_means(X)
    for layer, h in zip(model.gp_layers, reached, strict=True):
        locations = layer.features.points.locations.detach()
        assert torch.cdist(locations, h.detach()).min(1).values.max() < 0.5
        assert torch.pdist(locations).min() > 0
    assert result.network is not None
    assert result.network(X).shape == (250,)


def test_points_take_part_in_the_mean_once_they_have_means() -> None:
    model = actgp.deep_gp(
        3, num_layers=2, num_inducing=10, layers=actgp.Layers(num_points=4), generator=torch.Generator().manual_seed(0)
    )
    model, X = model.double(), inputs()
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.raw_mean[:6].normal_(generator=torch.Generator().manual_seed(1))
        expected = X
        for layer in model.gp_layers:
            expected = layer(expected).mean
        torch.testing.assert_close(model.mean(X), expected[:, 0])
        for layer in model.gp_layers:
            layer.q.raw_mean.normal_(generator=torch.Generator().manual_seed(2))
        expected = X
        for layer in model.gp_layers:
            expected = layer(expected).mean
        torch.testing.assert_close(model.mean(X), expected[:, 0])
        torch.testing.assert_close(model.network()(X), expected[:, 0])
