"""The zonal RBF kernel: exp(−ρ²/2) restricted to the sphere, s(t) = exp(t − 1).

Its eigenvalues are λ_n = e⁻¹ Γ(d/2) 2^α I_{n+α}(1), with α = (d−2)/2 and I the modified Bessel function.
"""

from functools import lru_cache

import mpmath
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp.kernels.zonal import ZonalKernel
from actgp.persistence import savable
from actgp.sphere import num_harmonics

DIGITS = 40


@savable
class ZonalRBF(ZonalKernel):
    """k(x, x') = v r r' exp(t − 1). Its levels are all positive and decay faster than exponentially.

    Args:
        input_dim: D, the number of inputs.
        batch_shape: gpytorch's batch shape.
        active_dims: gpytorch's: the D columns of X to use, where X has more.

    Example:
        >>> import actgp, torch
        >>> kernel = actgp.ZonalRBF(input_dim=2)
        >>> kernel(torch.zeros(1, 2), torch.ones(1, 2)).to_dense().shape
        torch.Size([1, 1])
    """

    def shape(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.exp(t - 1)

    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        return torch.tensor(_energies(dimension, num_levels), dtype=torch.float64)


@lru_cache(maxsize=256)
def _energies(dimension: int, num_levels: int) -> tuple[float, ...]:
    with mpmath.workdps(DIGITS):
        alpha = mpmath.mpf(dimension - 2) / 2
        factor = mpmath.exp(-1) * mpmath.gamma(alpha + 1) * 2**alpha
        return tuple(
            float(num_harmonics(n, dimension) * factor * mpmath.besseli(n + alpha, 1)) for n in range(num_levels)
        )
