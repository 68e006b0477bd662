"""Every function whose gradient is derived by hand, against the plain formula that it replaces.

The contract: the same values, gradients by finite differences, second derivatives where they exist.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import actgp
from actgp import fused
from actgp.features import units as plain_units
from actgp.features import whitening
from actgp.features.units import Shapes, Units
from actgp.layers import variational as plain_layers
from actgp.layers.variational import scales_of

Function = Callable[..., tuple[Tensor, ...]]


def normals(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, dtype=torch.float64, generator=g).requires_grad_() for shape in shapes]


def check(function: Function, plain: Function, inputs: list[Tensor], *, atol: float = 1e-5) -> None:
    for found, expected in zip(function(*inputs), plain(*inputs), strict=True):
        torch.testing.assert_close(found, expected)
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs, atol=atol)


ACTIVATIONS = {"softplus": actgp.Softplus(3.0), "tanh": actgp.Tanh(), "relu": actgp.ReLU()}
KERNELS = {
    "arccosine": actgp.ArcCosine,
    "order 2": lambda D: actgp.ArcCosine(D, order=2),
    "matched": actgp.MatchedKernel,
    "matern": actgp.ZonalMatern,
    "rbf": actgp.ZonalRBF,
    "spectral": lambda D: actgp.SpectralKernel(D, [0.3, 0.4, 0.2, 0.1]),
}


@pytest.mark.parametrize("kernel", [None, *KERNELS])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_through_units(activation: str | None, kernel: str | None) -> None:
    width = 0 if activation is None else 2
    M = width + (0 if kernel is None else 2)
    if M == 0:
        return
    match = None
    if activation is not None:
        matched = actgp.MatchedKernel(2, ACTIVATIONS[activation], 8)
        match = actgp.ActivatedFeatures(2, 2, ACTIVATIONS[activation], 8).match(matched)
    shapes = Shapes(match, width, None if kernel is None else KERNELS[kernel](2))
    assert shapes.fixed
    X, logs, weights, log_v, B = normals((4, 2), (1, 2), (M, 3), (), (2, M))

    def units(logs: Tensor, weights: Tensor, log_v: Tensor) -> Units:
        return Units(logs.exp(), log_v.exp(), torch.nn.functional.normalize(weights), shapes)

    check(
        lambda X, B, *parts: fused.through_units(X, units(*parts), B),
        lambda X, B, *parts: plain_units.through_units(X, units(*parts), B),
        [X, B, logs, weights, log_v],
    )


@pytest.mark.parametrize("blocks", [(3,), (1, 2)])
@pytest.mark.parametrize("P", [1, 2])
def test_conditional_marginals(P: int, blocks: tuple[int, ...]) -> None:
    A, m, *scales = normals((4, 3), (3, P), *((B, P, B) for B in blocks))
    explained = A.detach().square().sum(-1)
    prior = (explained + torch.tensor([0.5, 0.2, -0.3, 1.0])).requires_grad_()  # of one row all is explained, and more
    check(fused.conditional_marginals, plain_layers.conditional_marginals, [A, prior, m, *scales])
    mean, variance = fused.conditional_marginals(A, prior, m, *scales)
    for p in range(P):
        S = torch.block_diag(*(block[:, p] for block in scales))
        expected = (prior - A.square().sum(-1)).clamp_min(0) + (A @ S @ S.T @ A.T).diagonal()
        torch.testing.assert_close(variance[:, p], expected)
        torch.testing.assert_close(mean[:, p], A @ m[:, p])


@pytest.mark.parametrize("blocks", [(3,), (1, 2)])
def test_blocks_of_scales_are_those_of_the_whole(blocks: tuple[int, ...]) -> None:
    q = actgp.layers.WhitenedGaussian(3, 2, blocks).double()
    with torch.no_grad():
        q.raw_scale_tril.normal_(generator=torch.Generator().manual_seed(0))
    for p in range(2):
        whole = torch.block_diag(*(block[:, p] for block in scales_of(q.raw_scale_tril, blocks)))
        torch.testing.assert_close(whole, q.scale_tril[p])


@pytest.mark.filterwarnings("ignore::actgp.SpectralMismatchWarning")
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("points", [True, False])
def test_layers_with_gradients_are_those_without(name: str, points: bool) -> None:
    g = torch.Generator().manual_seed(0)
    units = actgp.ActivatedFeatures(3, 5, num_levels=4, generator=g)
    at = actgp.InducingPoints(torch.randn(4, 3, generator=g))
    features = actgp.DecoupledFeatures(units, at) if points else units
    layer = actgp.GPLayer(KERNELS[name](3), features, 2).double()
    with torch.no_grad():
        layer.q.raw_mean.normal_(generator=g)
        layer.q.raw_scale_tril.normal_(generator=g).mul_(0.1)
        layer.kernel.lengthscale, layer.kernel.variance = torch.tensor([0.7, 1.1, 1.6]), 1.3
    X = torch.randn(6, 3, generator=g).double()
    R = whitening(features, layer.kernel).R
    torch.testing.assert_close(layer.constants().whitening.R, R)
    A = features.Kuf(layer.kernel, X).T @ layer.inverse_cholesky().T
    left = (layer.kernel(X, diag=True) - A.square().sum(-1)).clamp_min(0)
    expected = A @ layer.q.mean, left.unsqueeze(-1) + (A @ layer.q.scale_tril).square().sum(-1).T
    for found in (layer(X), torch.no_grad()(layer)(X)):
        torch.testing.assert_close(found.mean, expected[0])
        torch.testing.assert_close(found.variance, expected[1])


@pytest.mark.parametrize("order", [0, 1, 2])
def test_shape_and_slope_are_those_of_the_kernel(order: int) -> None:
    kernel = actgp.ArcCosine(2, order=order)
    t = torch.linspace(-0.99, 0.99, 41, dtype=torch.float64, requires_grad=True)
    value, slope = kernel.shape_and_slope(t)
    torch.testing.assert_close(value, kernel.shape(t).detach())
    torch.testing.assert_close(slope, torch.autograd.grad(kernel.shape(t).sum(), t)[0])
    beyond = kernel.shape_and_slope(torch.tensor([1 + 1e-9, -1 - 1e-9], dtype=torch.float64))
    assert all(torch.isfinite(values).all() for values in beyond)


def test_shapes_that_are_learnt_get_their_gradients() -> None:
    own = actgp.Softplus(1.5, learnable=True)
    layer = actgp.GPLayer(actgp.MatchedKernel(2, own, 6), actgp.ActivatedFeatures(2, 4, own, 6)).double()
    assert layer.kernel.learns_shape
    assert not layer.constants().whitening.units.shapes.fixed
    with torch.no_grad():
        layer.q.raw_scale_tril.diagonal(dim1=1, dim2=2).fill_(-1.0)
    layer(torch.randn(3, 2).double()).variance.sum().backward()
    assert own.raw_beta.grad.abs() > 0
