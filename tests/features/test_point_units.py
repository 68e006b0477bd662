"""Inducing points of zonal kernels are units: the short way to their covariances against the long one."""

import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood

import actgp
from actgp.features.units import Shapes, Units, units


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def features_of(name: str) -> actgp.InducingFeatures:
    points = actgp.InducingPoints(torch.randn(7, 3, generator=generator(1)))
    if name == "points":
        return points
    return actgp.DecoupledFeatures(actgp.ActivatedFeatures(3, 6, generator=generator()), points)


def layer_of(name: str, kernel: actgp.ZonalKernel) -> actgp.GPLayer:
    layer = actgp.GPLayer(kernel, features_of(name), 2).double()
    with torch.no_grad():
        layer.q.mean.normal_(generator=generator(2))
        layer.q.raw_scale_tril.normal_(generator=generator(3)).mul_(0.1)
        layer.kernel.lengthscale = torch.tensor([0.7, 1.1, 1.6], dtype=torch.float64)
        layer.kernel.variance = 1.3
    return layer


KERNELS = {
    "arccosine": lambda: actgp.ArcCosine(3),
    "order 2": lambda: actgp.ArcCosine(3, order=2),
    "matched": lambda: actgp.MatchedKernel(3),
    "matern": lambda: actgp.ZonalMatern(3),
}


@pytest.mark.filterwarnings("ignore::actgp.SpectralMismatchWarning")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["points", "decoupled"])
def test_both_ways_agree_in_values_and_gradients(name: str, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for short in (True, False):
        if not short:
            monkeypatch.setattr("actgp.features.points.is_zonal", lambda kernel: False)
            monkeypatch.setattr("actgp.features.decoupled.is_zonal", lambda kernel: False)
        layer = layer_of(name, KERNELS[kernel]())
        X = torch.randn(5, 3, generator=generator(4), dtype=torch.float64).requires_grad_()
        assert (layer.constants().whitening.amplitudes is not None) == (short and layer.kernel.stamp is not None)
        mean, variance = layer(X)
        (mean.sum() + variance.square().sum()).backward()
        found.append([mean, variance, X.grad, *(p.grad for p in layer.parameters())])
        with torch.no_grad():
            torch.testing.assert_close(layer(X), (mean, variance))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_shape_and_slope_are_those_of_the_kernel(order: int) -> None:
    kernel = actgp.ArcCosine(2, order=order)
    t = torch.linspace(-0.99, 0.99, 41, dtype=torch.float64, requires_grad=True)
    value, slope = kernel.shape_and_slope(t)
    torch.testing.assert_close(value, kernel.shape(t).detach())
    torch.testing.assert_close(slope, torch.autograd.grad(kernel.shape(t).sum(), t)[0])
    beyond = kernel.shape_and_slope(torch.tensor([1 + 1e-9, -1 - 1e-9], dtype=torch.float64))
    assert all(torch.isfinite(values).all() for values in beyond)


def test_second_derivatives() -> None:
    g = generator(5)
    shapes = Shapes(None, 0, actgp.ArcCosine(2, order=2))
    X = torch.randn(3, 2, generator=g, dtype=torch.float64, requires_grad=True)
    directions = torch.nn.functional.normalize(torch.randn(4, 3, generator=g, dtype=torch.float64)).requires_grad_()
    B = torch.randn(2, 4, generator=g, dtype=torch.float64, requires_grad=True)
    scales = torch.ones(1, 2, dtype=torch.float64, requires_grad=True)
    variance = torch.tensor(1.2, dtype=torch.float64, requires_grad=True)
    inputs = (X, scales, directions, variance, B)
    assert torch.autograd.gradcheck(lambda *a: Units.apply(shapes, *a), inputs)
    assert torch.autograd.gradgradcheck(lambda *a: Units.apply(shapes, *a), inputs)
    with torch.no_grad():
        torch.testing.assert_close(units(*inputs, shapes), Units.apply(shapes, *inputs))


def test_a_kernel_of_some_columns_makes_the_network_that_is_its_mean() -> None:
    points = actgp.InducingPoints(torch.randn(5, 3, generator=generator(), dtype=torch.float64))
    layer = actgp.GPLayer(actgp.ArcCosine(2, active_dims=(0, 2)), points).double()
    with torch.no_grad():
        layer.q.mean.normal_(generator=generator(1))
    model = actgp.DeepGP([layer], GaussianLikelihood())
    X = torch.randn(4, 3, generator=generator(2), dtype=torch.float64)
    torch.testing.assert_close(model.network()(X), model.mean(X))
    moved = X + torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(model.network()(moved), model.mean(X))
