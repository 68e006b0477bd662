"""The shape of a zonal kernel by products and one root, which every program that runs ONNX has in both precisions.

    s(t) = e(c) + t o(c),   c = √(1 − t²),    e(c) = (s(t) + s(−t)) / 2,   o(c) = (s(t) − s(−t)) / 2t

Shapes such as the arc-cosine, (√(1−t²) + t (π − arccos t)) / π, are singular at t = ±1, but e and o are analytic in c
on all of [0, 1]: their Chebyshev series in 2c − 1 fall by a factor of 5.8 from term to term, and a few of them do.
"""

import copy

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy.polynomial import chebyshev
from torch import Tensor, nn

from actgp.kernels import ZonalKernel

NODES = 40
ROUND_OFF = {torch.float32: 1e-8, torch.float64: 1e-14}
CHECKED = 1_001  # points between −1 and 1


class Shape(nn.Module):
    """t ↦ s(t), for products of unit vectors.

    Args:
        kernel: The kernel, whose shape stays what it is now.
        dtype: The precision of t.
    """

    even: Tensor
    odd: Tensor

    @torch.no_grad()
    def __init__(self, kernel: ZonalKernel, dtype: torch.dtype) -> None:
        super().__init__()
        own = copy.deepcopy(kernel).requires_grad_(False).double().cpu()
        c = torch.from_numpy((1 + np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)) / 2)
        t = (1 - c.square()).sqrt()
        plus, minus = own.shape(t), own.shape(-t)
        smallest = ROUND_OFF[dtype]
        self.register_buffer("even", _powers((plus + minus) / 2, smallest))
        self.register_buffer("odd", _powers((plus - minus) / (2 * t), smallest))
        grid = torch.linspace(-1.0, 1.0, CHECKED, dtype=torch.float64)
        error = (self._series(grid) - own.shape(grid)).abs().max().item()
        self.kernel = None if error <= 100 * smallest else copy.deepcopy(kernel).requires_grad_(False)
        self.to(dtype)

    def forward(self, t: Float[Tensor, "N M"]) -> Float[Tensor, "N M"]:
        t = t.clamp(-1.0, 1.0)
        return self._series(t) if self.kernel is None else self.kernel.shape(t)

    def _series(self, t: Tensor) -> Tensor:
        x = (1 - t).mul_(1 + t).sqrt_().mul_(2).sub_(1)
        return t.mul(_horner(x, self.odd)).add_(_horner(x, self.even))


def _powers(values: Tensor, smallest: float) -> Float64[Tensor, " K"]:
    """The coefficients of the powers of 2c − 1, lowest first, of a function with these values at Chebyshev's nodes."""
    angles = np.pi * (np.arange(NODES) + 0.5) / NODES
    series = 2 / NODES * np.cos(np.outer(np.arange(NODES), angles)) @ values.numpy()
    series[0] /= 2
    counted = max(1, int(np.max(np.flatnonzero(np.abs(series) > smallest), initial=0)) + 1)
    return torch.from_numpy(chebyshev.cheb2poly(series[:counted]))


def _horner(x: Tensor, coefficients: Float[Tensor, " K"]) -> Tensor:
    """Σ_k c_k x^k; in place, since large tensors that come and go take longer than the arithmetic.

    Coefficients are tensors: plain numbers would be in single precision in an ONNX file.
    """
    K = coefficients.shape[0]
    if K == 1:
        return coefficients[0]
    found = (x * coefficients[K - 1]).add_(coefficients[K - 2])
    for k in range(K - 3, -1, -1):
        found = found.mul_(x).add_(coefficients[k])
    return found
