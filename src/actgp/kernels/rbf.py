"""The zonal RBF kernel: exp(−ρ²/2) restricted to the sphere, s(t) = exp(t − 1)."""

import mpmath
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp.kernels.zonal import ZonalKernel
from actgp.sphere import quadrature


class ZonalRBF(ZonalKernel):
    """k(x, x') = v r r' exp(t − 1). Its levels are all positive and decay faster than exponentially."""

    def shape(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.exp(t - 1)

    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        return torch.tensor(quadrature.energies(_exact, dimension, num_levels), dtype=torch.float64)


def _exact(t: mpmath.mpf) -> mpmath.mpf:
    return mpmath.exp(t - 1)
