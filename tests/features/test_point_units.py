"""Inducing points of zonal kernels are units: the short way to their covariances against the long one."""

import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood

import actgp


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
        layer.q.raw_mean.normal_(generator=generator(2))
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
@pytest.mark.parametrize("name", ["points"])
def test_both_ways_agree_in_values_and_gradients(name: str, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for short in (True, False):
        if not short:
            monkeypatch.setattr("actgp.features.points.is_zonal", lambda kernel: False)
        layer = layer_of(name, KERNELS[kernel]())
        X = torch.randn(5, 3, generator=generator(4), dtype=torch.float64).requires_grad_()
        assert (layer.constants().whitening.units is not None) == short
        mean, variance = layer(X)
        (mean.sum() + variance.square().sum()).backward()
        found.append([mean, variance, X.grad, *(p.grad for p in layer.parameters())])
        with torch.no_grad():
            torch.testing.assert_close(layer(X), (mean, variance))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)  # the jitter is added to Φ or to Kuu


def test_a_kernel_of_some_columns_makes_the_network_that_is_its_mean() -> None:
    points = actgp.InducingPoints(torch.randn(5, 3, generator=generator(), dtype=torch.float64))
    layer = actgp.GPLayer(actgp.ArcCosine(2, active_dims=(0, 2)), points).double()
    with torch.no_grad():
        layer.q.raw_mean.normal_(generator=generator(1))
    model = actgp.DeepGP([layer], GaussianLikelihood())
    X = torch.randn(4, 3, generator=generator(2), dtype=torch.float64)
    torch.testing.assert_close(model.network()(X), model.mean(X))
    moved = X + torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(model.network()(moved), model.mean(X))
