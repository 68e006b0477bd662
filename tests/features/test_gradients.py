"""Hidden units and whitening with gradients derived by hand, against finite differences and torch's own operations."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import actgp
from actgp.features.units import units
from actgp.features.whitening import whitenings

CPU = torch.device("cpu")
ACTIVATIONS = {"softplus": actgp.Softplus(3.0), "tanh": actgp.Tanh(), "relu": actgp.ReLU()}


def parts(seed: int = 0, N: int = 4, D: int = 2, M: int = 3, K: int = 2) -> tuple[torch.Tensor, ...]:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=g)

    directions = torch.nn.functional.normalize(normal(M, D + 1), dim=-1)
    tensors = (normal(N, D), normal(1, D).exp(), directions, normal(()).exp(), normal(K, M))
    return tuple(tensor.requires_grad_() for tensor in tensors)


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_units_are_those_of_the_formula_with_gradients_of_two_orders(name: str) -> None:
    kernel = actgp.MatchedKernel(2, ACTIVATIONS[name], 8)
    sigma = actgp.ActivatedFeatures(2, 3, ACTIVATIONS[name], 8).match(kernel).sigma(torch.float64, CPU)
    inputs = parts()
    X, lengthscale, directions, variance, B = inputs
    lifted = torch.nn.functional.pad(X / lengthscale, (0, 1), value=1.0)
    r = lifted.norm(dim=-1, keepdim=True)
    energies = ACTIVATIONS[name].energies(3, 8)
    expected = (r * actgp.zonal_series(lifted / r @ directions.T, energies, 3)) @ B.T
    with torch.set_grad_enabled(True):
        A, prior = units(*inputs, sigma)
    torch.testing.assert_close(A, expected)
    torch.testing.assert_close(prior, variance * r[:, 0] ** 2)
    with torch.no_grad():  # in blocks, elsewhere
        torch.testing.assert_close(units(*inputs, sigma)[0], A)
    assert gradcheck(lambda *given: units(*given, sigma), inputs)
    assert gradgradcheck(lambda *given: units(*given, sigma), inputs)


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_whitening_whitens_with_gradients_of_two_orders(name: str) -> None:
    kernel = actgp.MatchedKernel(4, ACTIVATIONS[name], 8).double()
    features = actgp.ActivatedFeatures(4, 3, ACTIVATIONS[name], 8).double()
    kernel.variance = 1.7
    match = features.match(kernel)
    inputs = features.weights.detach().clone().requires_grad_(), kernel.variance.detach().clone().requires_grad_()
    ((directions, R, relative),) = whitenings(inputs[:1], inputs[1:], match, torch.float64)
    assert not relative.any()
    torch.testing.assert_close(directions, features.directions)
    torch.testing.assert_close(R @ features.Kuu(kernel) @ R.T, torch.eye(3).double(), rtol=1e-6, atol=1e-6)
    assert gradcheck(lambda W, v: whitenings([W], [v], match, torch.float64)[0][:2], inputs)
    assert gradgradcheck(lambda W, v: whitenings([W], [v], match, torch.float64)[0][:2], inputs, atol=1e-4)
    G = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for ours, theirs in zip(
        torch.autograd.grad(relative, inputs, G @ R.T, retain_graph=True),  # of (I + E) R at E = 0
        torch.autograd.grad(R, inputs, G),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_float32_is_used_for_units_where_their_round_off_stays_small() -> None:
    for D, expected in ((2, torch.float64), (8, torch.float32)):
        kernel, features = actgp.ArcCosine(D), actgp.ActivatedFeatures(D, 64)
        found = features.whitening(kernel, torch.float32)
        assert found.R.dtype == found.directions.dtype == expected
        assert features.whitening(kernel).R.dtype == torch.float64
        X = torch.randn(50, D, generator=torch.Generator().manual_seed(0))
        exact = features.through(kernel, X.double(), found.R.double(), features.whitening(kernel))[0]
        A, prior = features.through(kernel, X.to(found.R.dtype), found.R, found)
        assert ((A - exact).norm(dim=-1) / prior.sqrt()).max().item() < 3e-4
