"""Columns of Kuf as hidden units of a network.

    x̃ = [x / ℓ, 1],   r = ‖x̃‖,   x̂ = x̃ / r,   Kuf[m, i] = c_m r_i σ_m(ŵ_m · x̂_i),   k(x, x) = v r²

For activated features σ_m is the activation, and c_m = 1. Inducing points of a zonal kernel are hidden units, too:
σ_m is the shape of the kernel, ŵ_m the direction of the point, and c_m = v r_m.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.kernels import ZonalKernel
from actgp.sphere import Polynomial, evaluated, lift, project

ROWS = 512  # for each thread: what units make of them stays in the cache, where no gradient is wanted


@dataclass(frozen=True)
class Shapes:
    """What units do to t = ŵ · x̂: the first `width` of them an activation, the others the shape of a kernel.

    Attributes:
        activation: σ̃, a polynomial if its energies are fixed; None where `width` is 0.
        width: How many units have it.
        kernel: The kernel of the others; None where there are none.
    """

    activation: Polynomial | Callable[[Tensor], Tensor] | None
    width: int
    kernel: ZonalKernel | None

    @property
    def fixed(self) -> bool:
        """Whether no parameter of them is learnt, so that values and slopes are functions of t alone."""
        own = self.activation is None or isinstance(self.activation, Polynomial)
        return own and (self.kernel is None or not self.kernel.learns_shape)

    def __call__(self, t: Float[Tensor, "N M"]) -> Float[Tensor, "N M"]:
        """σ_m(t), differentiable any number of times."""
        parts = []
        if self.activation is not None:
            own, sigma = t[:, : self.width], self.activation
            parts.append(evaluated(sigma, own) if isinstance(sigma, Polynomial) else sigma(own))
        if self.kernel is not None:
            own = t[:, self.width :]
            inside = own.detach().clamp(-1.0, 1.0)  # round-off aside, without cutting the gradient
            parts.append(self.kernel.shape(own + (inside - own.detach()) if own.requires_grad else inside))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def with_slope(self, t: Float[Tensor, "N M"]) -> tuple[Float[Tensor, "N M"], Float[Tensor, "N M"]]:
        """σ_m(t) and σ_m'(t), without gradients, for shapes that are fixed."""
        parts = []
        if isinstance(self.activation, Polynomial):
            parts.append(self.activation.with_slope(t[:, : self.width]))
        if self.kernel is not None:
            parts.append(self.kernel.shape_and_slope(t[:, self.width :]))
        if len(parts) == 1:
            return parts[0]
        value, slope = (torch.cat(pair, dim=1) for pair in zip(*parts, strict=True))
        return value, slope


@dataclass(frozen=True)
class Units:
    """M hidden units in one precision.

    Attributes:
        lengthscale: ℓ.
        directions: ŵ_m.
        variance: v, of the kernel.
        amplitudes: c_m; None where all are one.
        shapes: σ_m.
    """

    lengthscale: Float[Tensor, "1 D"]
    directions: Float[Tensor, "M d"]
    variance: Float[Tensor, ""]
    amplitudes: Float[Tensor, " M"] | None
    shapes: Shapes

    def Kuf(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        """Kuf[m, i] = c_m r_i σ_m(ŵ_m · x̂_i)."""
        radius, x = project(lift(X / self.lengthscale))
        Kfu = radius.unsqueeze(-1) * self.shapes(x @ self.directions.T)  # [N, M]
        return (Kfu if self.amplitudes is None else Kfu * self.amplitudes).T

    def scaled(self, B: Float[Tensor, "K M"]) -> Float[Tensor, "K M"]:
        """B, with the amplitudes taken into its columns."""
        return B if self.amplitudes is None else B * self.amplitudes


def through_units(
    X: Float[Tensor, "N D"], units: Units, B: Float[Tensor, "K M"]
) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
    """A = Kfu Bᵀ and k(x, x): B = L⁻¹ whitens the units, B = Vᵀ makes a layer of a network."""
    scaled = units.scaled(B)
    if torch.is_grad_enabled():
        return units_product(units.shapes, X, units.lengthscale, units.directions, units.variance, scaled)
    rows = ROWS * torch.get_num_threads()
    parts = [
        units_product(units.shapes, part, units.lengthscale, units.directions, units.variance, scaled)
        for part in X.split(rows)
    ]
    A, prior = (torch.cat(values) for values in zip(*parts, strict=True))
    return A, prior


def units_product(
    shapes: Shapes, X: Tensor, lengthscale: Tensor, directions: Tensor, variance: Tensor, B: Tensor
) -> tuple[Tensor, Tensor]:
    """(r σ(X̂ Ŵᵀ)) Bᵀ and v r²."""
    radius, x = project(lift(X / lengthscale))
    Kfu = radius.unsqueeze(-1) * shapes(x @ directions.T)
    return Kfu @ B.T, variance * radius.square()
