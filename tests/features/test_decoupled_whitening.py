"""The whitening of activations and points together: values and gradients by hand against torch's own operations."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import actgp
from actgp.features.decoupled_whitening import DecoupledWhitening, Inputs, _plainly, decoupled_whitenings
from actgp.features.match import SpectralMatch

KERNELS = {
    "arccosine": lambda: actgp.ArcCosine(3),
    "order 2": lambda: actgp.ArcCosine(3, order=2),
    "matched": lambda: actgp.MatchedKernel(3),
    "matern": lambda: actgp.ZonalMatern(3),
}


def problem(name: str, M: int = 4, K: int = 3) -> tuple[tuple[Tensor, ...], actgp.ZonalKernel, SpectralMatch]:
    g = torch.Generator().manual_seed(0)
    kernel = KERNELS[name]()
    W = 2 * torch.randn(M, 4, dtype=torch.float64, generator=g)
    Z = torch.randn(K, 3, dtype=torch.float64, generator=g)
    lengthscale = torch.tensor([[0.7, 1.1, 1.6]], dtype=torch.float64)
    variance = torch.tensor(1.3, dtype=torch.float64)
    match = actgp.ActivatedFeatures(3, M, generator=g).match(kernel)
    return tuple(x.requires_grad_() for x in (W, Z, lengthscale, variance)), kernel, match


def outputs(inputs: tuple[Tensor, ...], kernel: actgp.ZonalKernel, match: SpectralMatch) -> tuple[Tensor, ...]:
    return DecoupledWhitening.apply(kernel, match, torch.float64, *inputs)


@pytest.mark.filterwarnings("ignore::actgp.SpectralMismatchWarning")
@pytest.mark.parametrize("name", KERNELS)
def test_values_and_gradients(name: str) -> None:
    inputs, kernel, match = problem(name)
    torch.testing.assert_close(outputs(inputs, kernel, match), tuple(_plainly(*inputs, kernel, match)))
    assert gradcheck(lambda *x: outputs(x, kernel, match), inputs)


def test_second_derivatives() -> None:
    inputs, kernel, match = problem("arccosine", M=2, K=2)
    assert gradgradcheck(lambda *x: outputs(x, kernel, match), inputs)


@pytest.mark.parametrize(("spread", "dtype"), [(1.0, torch.float32), (1e-4, torch.float64)])
def test_precision_is_double_where_points_are_close(spread: float, dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(0)
    features = actgp.ActivatedFeatures(3, 4, generator=g)
    kernel = actgp.ArcCosine(3)
    Z = spread * torch.randn(5, 3, generator=g)
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):
            layer = Inputs(features.weights, Z, kernel.lengthscale, kernel.variance)
            (parts,) = decoupled_whitenings([layer], kernel, features.match(kernel), torch.float32)
        assert all(part.dtype == dtype for part in parts)
