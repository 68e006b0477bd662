"""The arc-cosine kernel (Cho and Saul, 2009), of infinitely wide layers of rectified powers t₊^p.

With θ = arccos t:

    order 0   s(t) = 1 − θ/π
    order 1   s(t) = (sin θ + (π−θ) cos θ) / π                          (the paper, eq. 5)
    order 2   s(t) = (3 sin θ cos θ + (π−θ)(1 + 2 cos² θ)) / (3π)

s is the covariance of σ_p(w·x̂) over random w, so its eigenvalues are λ_n = σ_n² / ‖σ_p‖², with σ_n those of t₊^p.
For p = 1 this reads λ_n = 2d σ_n², for every d, odd or even.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import pi
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp import checks
from actgp.kernels.random_shapes import RandomShapes, RectifiedShape, rectified_norm
from actgp.kernels.zonal import ZonalKernel
from actgp.persistence import savable
from actgp.sphere import num_harmonics, with_derivative
from actgp.sphere.rectified import rectified_power_energies


@savable
class ArcCosine(ZonalKernel):
    """k(x, x') = v r r' s(t) with the arc-cosine shape of an order, 1 as in the paper by default.

    Args:
        input_dim: D, the number of inputs.
        order: 0, 1 or 2: the power p of the rectifier. It changes the shape only; the radius stays linear.
        batch_shape: gpytorch's batch shape.
        active_dims: gpytorch's: the D columns of X to use, where X has more.

    Example:
        >>> import actgp, torch
        >>> kernel = actgp.ArcCosine(input_dim=2)
        >>> kernel(torch.zeros(1, 2), torch.ones(1, 2)).to_dense().shape
        torch.Size([1, 1])
    """

    def __init__(
        self,
        input_dim: int,
        order: int = 1,
        *,
        batch_shape: torch.Size | None = None,
        active_dims: Sequence[int] | None = None,
    ) -> None:
        super().__init__(input_dim, batch_shape=batch_shape, active_dims=active_dims)
        self.order = checks.choice(checks.integer(order, "order", minimum=0), "order", (0, 1, 2))

    def config(self) -> dict[str, Any]:
        return {"order": self.order}

    def shape(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return _shape(t, self.order)

    def shape_and_slope(self, t: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        t = t.clamp(-1.0, 1.0)
        if self.order != 1:
            return _shape(t, self.order), _slope(t, self.order)
        slope = torch.arccos(t).div_(-pi).add_(1.0)  # s_0 = 1 − θ/π
        return torch.addcmul(_sine(t).div_(pi), slope, t), slope  # s_1 = sin θ / π + s_0 cos θ

    def random_shapes(self, num_features: int, *, generator: torch.Generator | None = None) -> RandomShapes:
        return RectifiedShape(self.order, self.dimension)

    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        return torch.tensor(_energies(self.order, dimension, num_levels), dtype=torch.float64)


@lru_cache(maxsize=256)
def _energies(p: int, d: int, num_levels: int) -> tuple[float, ...]:
    a = rectified_power_energies(p, d, num_levels)
    norm2 = rectified_norm(p, d) ** 2
    # k_n = N_n λ_n = N_n σ_n² / ‖σ_p‖² = a_n² / (N_n ‖σ_p‖²)
    return tuple(a_n * (a_n * (1 / num_harmonics(n, d))) / norm2 for n, a_n in enumerate(a))


def _shape(t: Tensor, order: int) -> Tensor:
    value = (_order_zero, _order_one, _order_two)[order]
    return with_derivative(t, value, lambda t: _slope(t, order))


def _slope(t: Tensor, order: int) -> Tensor:
    """s_1' = s_0 and s_2' = (4/3) s_1; s_0' = 1 / (π sin θ) has a pole at t = ±1."""
    if order > 0:
        return _shape(t, 0) if order == 1 else 4 / 3 * _shape(t, 1)
    # There dt/dx is zero up to round-off: bounded, their product is zero too.
    return 1 / (pi * ((1 - t) * (1 + t)).clamp_min(torch.finfo(t.dtype).eps).sqrt())


def _order_zero(t: Tensor) -> Tensor:
    return 1 - torch.arccos(t) / pi


def _order_one(t: Tensor) -> Tensor:
    return (_sine(t) + (pi - torch.arccos(t)) * t) / pi


def _order_two(t: Tensor) -> Tensor:
    return (3 * _sine(t) * t + (pi - torch.arccos(t)) * (1 + 2 * t**2)) / (3 * pi)


def _sine(t: Tensor) -> Tensor:
    """√(1−t²)."""
    return ((1 - t) * (1 + t)).clamp_min(0.0).sqrt()
