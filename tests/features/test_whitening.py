"""Layers that are alike, whitened in one stack: as each by itself, in values and gradients."""

import pytest
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

import actgp
from actgp.features import InducingFeatures, whitening, whitenings
from actgp.layers import mean_functions

Pair = tuple[InducingFeatures, Kernel]


def units(M: int = 5, D: int = 3, seed: int = 0) -> actgp.ActivatedFeatures:
    return actgp.ActivatedFeatures(D, M, generator=torch.Generator().manual_seed(seed))


def kernel_of(variance: float, D: int = 3) -> actgp.ArcCosine:
    kernel = actgp.ArcCosine(D)
    kernel.variance = variance
    return kernel


def points(seed: int, K: int = 4) -> actgp.InducingPoints:
    return actgp.InducingPoints(torch.randn(K, 3, generator=torch.Generator().manual_seed(seed)))


def mixed(dtype: torch.dtype) -> list[Pair]:
    """Some that are alike, and some that are not: in number, kernel, energies that are learnt, points."""
    pairs: list[Pair] = [
        (units(seed=0), kernel_of(0.7)),
        (units(M=6, seed=1), kernel_of(1.1)),
        (units(seed=2), kernel_of(1.9)),
        (units(seed=3), actgp.MatchedKernel(3)),
        (actgp.ActivatedFeatures(3, 5, actgp.Softplus(1.0, learnable=True)), kernel_of(0.4)),
        (actgp.DecoupledFeatures(units(seed=4), points(5)), kernel_of(0.8)),
        (points(6), kernel_of(1.4)),
        (actgp.DecoupledFeatures(units(seed=7), points(8)), kernel_of(1.5)),
        (units(seed=9), kernel_of(1.0)),
    ]
    return [(features.to(dtype), kernel.to(dtype)) for features, kernel in pairs]


def gradients(outputs: list[Tensor], pairs: list[Pair]) -> list[Tensor | None]:
    g = torch.Generator().manual_seed(1)
    total = sum((x * torch.randn(x.shape, generator=g, dtype=torch.float64)).sum() for x in outputs)
    parameters = [p for pair in pairs for module in pair for p in module.parameters()]
    return list(torch.autograd.grad(total, parameters, allow_unused=True))


KERNELS = {
    "arccosine": actgp.ArcCosine,
    "order 2": lambda D: actgp.ArcCosine(D, order=2),
    "matched": actgp.MatchedKernel,
    "matern": actgp.ZonalMatern,
    "rbf": actgp.ZonalRBF,
    "spectral": lambda D: actgp.SpectralKernel(D, [0.3, 0.4, 0.2, 0.1]),
}


@pytest.mark.filterwarnings("ignore::actgp.SpectralMismatchWarning")
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("parts", ["units", "points", "both"])
def test_it_is_the_inverse_of_the_cholesky_factor_in_values_and_gradients(name: str, parts: str) -> None:
    few = actgp.ActivatedFeatures(3, 3, num_levels=4, generator=torch.Generator().manual_seed(0))
    features = {"units": few, "points": points(1, 3), "both": actgp.DecoupledFeatures(few, points(1, 3))}[
        parts
    ].double()
    kernel = KERNELS[name](3).double()
    with torch.no_grad():
        kernel.lengthscale, kernel.variance = torch.tensor([0.7, 1.1, 1.6]), 1.3
    L = torch.linalg.cholesky(features.Kuu(kernel))
    layer = actgp.GPLayer(kernel, features)
    found = layer.inverse_cholesky(), torch.linalg.solve_triangular(L, torch.eye(len(L)).double(), upper=False)
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)
    for one, other in zip(*(gradients([R], [(features, kernel)]) for R in found), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * other.abs().max().item())


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-7), (torch.float32, 2e-4)])
def test_whitened_together_as_each_by_itself(dtype: torch.dtype, tolerance: float) -> None:
    pairs = mixed(dtype)
    together = whitenings(pairs, dtype)
    alone = [whitening(features, kernel, dtype) for features, kernel in pairs]
    for one, other in zip(together, alone, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one.R, other.R, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(one.units.vectors, other.units.vectors)
    found = [gradients([found.R for found in each], pairs) for each in (together, alone)]
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * other.abs().max().item())


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_means_are_products_with_V(dtype: torch.dtype, tolerance: float) -> None:
    g = torch.Generator().manual_seed(2)
    X = torch.randn(4, 3, generator=g).to(dtype)
    layers = [actgp.GPLayer(kernel, features, 2).to(dtype) for features, kernel in mixed(dtype)]
    with torch.no_grad():
        for layer in layers:
            layer.q.raw_mean.normal_(generator=g)
    for layer, mean in zip(layers, mean_functions(layers), strict=True):
        V = layer.output_weights()
        expected = layer.features.Kuf(layer.kernel, X.double()).T @ V
        torch.testing.assert_close(mean(X).double(), expected, rtol=tolerance, atol=tolerance)


def test_a_layer_that_needs_more_jitter_leaves_the_others_alone() -> None:
    good, bad = units().double(), units(seed=1).double()
    with torch.no_grad():
        bad.weights.copy_(bad.weights[:1].expand_as(bad.weights))  # K of rank one
    kernels = [actgp.ArcCosine(3).double() for _ in range(2)]
    together = whitenings([(good, kernels[0]), (bad, kernels[1])], torch.float64)
    torch.testing.assert_close(together[0].R, whitening(good, kernels[0]).R)
    assert torch.isfinite(together[1].R).all()


def test_double_precision_for_all_of_a_stack_where_one_needs_it() -> None:
    kernels = [actgp.ArcCosine(3) for _ in range(2)]
    good, bad = units(), units(seed=1)
    with torch.no_grad():
        bad.weights[1] = bad.weights[0] * (1 + 1e-4)
        bad.weights[1, 0] += 1e-4
    alone = whitening(good, kernels[0], torch.float32)
    together = whitenings([(good, kernels[0]), (bad, kernels[1])], torch.float32)
    assert alone.dtype == torch.float32
    assert all(each.dtype == torch.float64 for each in together)


def test_gradients_in_single_precision_are_good_to_three_digits() -> None:
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(8, generator=g)
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.raw_mean[:64].normal_(0.0, 0.3, generator=g)
    X = torch.randn(100, 8, generator=g)
    found = []
    for dtype in (torch.float32, torch.float64):
        model.to(dtype).zero_grad()
        mean, variance, _ = model.along(
            X.to(dtype), model.constants_and_kl()[0], [torch.zeros(1, 1, 1, dtype=dtype)] * 2
        )
        (mean.square().sum() + variance.sum()).backward()
        found.append([layer.features.activated.weights.grad.double() for layer in model.gp_layers])
    for single, double in zip(*found, strict=True):
        assert (single - double).norm() < 1e-3 * double.norm()


@pytest.mark.parametrize("num_points", [0, 3])
def test_gradients_that_can_be_differentiated_again_are_the_same(num_points: int) -> None:
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(
        3, num_layers=2, num_inducing=6, layers=actgp.Layers(num_points=num_points), generator=g
    ).double()
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.raw_mean.normal_(generator=g)
    X, parameters = torch.randn(7, 3, generator=g).double(), list(model.parameters())
    for result in (
        lambda: model.mean(X).sin().sum(),
        lambda: model.elbo(X, X[:, 0], 7, generator=torch.Generator().manual_seed(1)),
    ):
        plain, again = (
            torch.autograd.grad(result(), parameters, create_graph=create_graph, allow_unused=True)
            for create_graph in (False, True)
        )
        for one, other in zip(plain, again, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-7)


def test_outputs_may_be_changed_in_place() -> None:
    model = actgp.deep_gp(3, num_layers=2, num_inducing=6)
    X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    model.mean(X).sub_(1.0).square().sum().backward()
    assert model.gp_layers[-1].q.raw_mean.grad.any()


@pytest.mark.parametrize(("spread", "dtype"), [(1.0, torch.float32), (1e-4, torch.float64)])
@pytest.mark.parametrize("gradients", [True, False])
def test_precision_is_double_where_points_are_close(spread: float, dtype: torch.dtype, gradients: bool) -> None:
    g = torch.Generator().manual_seed(0)
    close = actgp.InducingPoints(spread * torch.randn(5, 3, generator=g))
    features = actgp.DecoupledFeatures(actgp.ActivatedFeatures(3, 4, generator=g), close)
    with torch.set_grad_enabled(gradients):
        (found,) = whitenings([(features, actgp.ArcCosine(3))], torch.float32)
    assert found.dtype == found.units.vectors.dtype == dtype


def test_float32_is_used_for_units_where_their_round_off_stays_small() -> None:
    for D, expected in ((2, torch.float64), (8, torch.float32)):
        layer = actgp.GPLayer(actgp.ArcCosine(D), actgp.ActivatedFeatures(D, 64))
        found = whitening(layer.features, layer.kernel, torch.float32)
        assert found.dtype == found.units.vectors.dtype == expected
        assert whitening(layer.features, layer.kernel).dtype == torch.float64
        X = torch.randn(50, D, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            A, prior = layer.whiten(X).double(), layer.kernel(X, diag=True).double()
            exact = layer.double().whiten(X.double())
        assert ((A - exact).norm(dim=-1) / prior.sqrt()).max().item() < 3e-4
