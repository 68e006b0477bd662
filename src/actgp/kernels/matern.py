"""Zonal Matérn kernels: the stationary Matérn kernel restricted to the sphere.

With the chord ρ = ‖x̂ − x̂'‖ = √(2 − 2t) and c = √(2ν):

    ν = 1/2   s = exp(−ρ)
    ν = 3/2   s = (1 + cρ) exp(−cρ)                  ds/dt = 3 exp(−cρ)
    ν = 5/2   s = (1 + cρ + c²ρ²/3) exp(−cρ)         ds/dt = (5/3) (1 + cρ) exp(−cρ)

All levels of its spectrum are positive, which is why activations with missing levels explain it badly
(paper, figure 5).
"""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import mpmath
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp import checks
from actgp.kernels.random_shapes import PlaneWaves, RandomShapes
from actgp.kernels.zonal import ZonalKernel
from actgp.persistence import savable
from actgp.sphere import quadrature, with_derivative


@savable
class ZonalMatern(ZonalKernel):
    """k(x, x') = v r r' s(t) with a Matérn shape.

    Args:
        input_dim: D, the number of inputs.
        nu: The smoothness ν: 0.5, 1.5 or 2.5.
        batch_shape: gpytorch's batch shape.
        active_dims: gpytorch's: the D columns of X to use, where X has more.

    Example:
        >>> import actgp, torch
        >>> kernel = actgp.ZonalMatern(input_dim=2, nu=1.5)
        >>> kernel(torch.zeros(1, 2), torch.ones(1, 2)).to_dense().shape
        torch.Size([1, 1])
    """

    def __init__(
        self,
        input_dim: int,
        nu: float = 2.5,
        *,
        batch_shape: torch.Size | None = None,
        active_dims: Sequence[int] | None = None,
    ) -> None:
        super().__init__(input_dim, batch_shape=batch_shape, active_dims=active_dims)
        self.nu = checks.choice(nu, "nu", (0.5, 1.5, 2.5))

    def config(self) -> dict[str, Any]:
        return {"nu": float(self.nu)}

    def shape(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if self.nu == 0.5:
            return _half(t)
        if self.nu == 1.5:
            return with_derivative(t, _three_halves, lambda t: 3 * torch.exp(-sqrt(3) * _chord(t)))
        return with_derivative(t, _five_halves, _five_halves_slope)

    def random_shapes(self, num_features: int, *, generator: torch.Generator | None = None) -> RandomShapes:
        """Plane waves: the kernel is that of R^d, whose frequencies are Student-t with 2ν degrees of freedom."""
        dof = round(2 * self.nu)

        def normal(columns: int) -> Tensor:
            device = self.raw_lengthscale.device
            return torch.randn(num_features, columns, dtype=torch.float64, device=device, generator=generator)

        lengths = normal(self.dimension).norm(dim=1) * (dof / normal(dof).square().sum(1)).sqrt()  # ‖z‖ √(2ν / χ²)
        phases = torch.atan2(*normal(2).unbind(1))
        return PlaneWaves(lengths, phases, self.dimension)

    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        exact = {0.5: _exact_half, 1.5: _exact_three_halves, 2.5: _exact_five_halves}[self.nu]
        return torch.tensor(quadrature.energies(exact, dimension, num_levels), dtype=torch.float64)


def _chord(t: Tensor) -> Tensor:
    """ρ = √(2−2t), kept above zero so that its derivative is finite at coincident points."""
    return (2 - 2 * t).clamp_min(torch.finfo(t.dtype).tiny).sqrt()


def _half(t: Tensor) -> Tensor:
    return torch.exp(-_chord(t))


def _three_halves(t: Tensor) -> Tensor:
    x = sqrt(3) * _chord(t)
    return (1 + x) * torch.exp(-x)


def _five_halves(t: Tensor) -> Tensor:
    x = sqrt(5) * _chord(t)
    return (1 + x + x**2 / 3) * torch.exp(-x)


def _five_halves_slope(t: Tensor) -> Tensor:
    # d/dt (1 + x) exp(−x) at x = √5 ρ is 5 exp(−x), as for ν = 3/2.
    def value(t: Tensor) -> Tensor:
        x = sqrt(5) * _chord(t)
        return (1 + x) * torch.exp(-x)

    return 5 / 3 * with_derivative(t, value, lambda t: 5 * torch.exp(-sqrt(5) * _chord(t)))


def _exact_half(t: mpmath.mpf) -> mpmath.mpf:
    return mpmath.exp(-mpmath.sqrt(2 - 2 * t))


def _exact_three_halves(t: mpmath.mpf) -> mpmath.mpf:
    x = mpmath.sqrt(6 - 6 * t)
    return (1 + x) * mpmath.exp(-x)


def _exact_five_halves(t: mpmath.mpf) -> mpmath.mpf:
    x = mpmath.sqrt(10 - 10 * t)
    return (1 + x + x**2 / 3) * mpmath.exp(-x)
