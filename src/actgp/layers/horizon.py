"""What makes a layer forget, far from all data.

A zonal kernel's means and standard deviations both grow with the radius r = ‖x̃‖, x̃ = [x / ℓ, 1]: along a ray a class
stays as probable as it is, however far one goes. A form that grows faster, of which q knows nothing, is added to each
output,

    f(x) + √v r (r / R)^n x̂ᵀ B x̂,   B_ij ~ N(0, 1),   x̂ = x̃ / r,   n = 8
    covariance v r r' (r r' / R²)^n (x̂ · x̂')²,     variance v r² (r / R)^2n

It is a part of the prior that no data are spent on, so that the bound stays one. At r = R it is as large as the
kernel's own part; at .7 R it is .3 % of that, and at 1.5 R 650 times as much, which outgrows what the layer has learnt:
every class becomes as probable as any other. `forget_beyond` sets R by the data.
"""

from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.kernels import ZonalKernel
from actgp.sphere import lift, project

STEEPNESS = 8  # n


@dataclass(frozen=True)
class Horizon:
    """The form that is added to a layer with a zonal kernel.

    Attributes:
        kernel: The layer's.
        radius: R, beyond which it prevails.
    """

    kernel: ZonalKernel
    radius: float

    def variance(self, X: Float[Tensor, "N D"]) -> Float[Tensor, " N"]:
        """v r² (r / R)^2n, or the largest number that there is: finite, and more than what the layer has learnt."""
        return self._size(X).square().clamp_max(torch.finfo(X.dtype).max)

    def covariance(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N N"]:
        """v r r' (r r' / R²)^n (x̂ · x̂')²."""
        x = self._direction(X)
        size = self._size(X)
        return size * size.unsqueeze(-1) * (x @ x.T).square()

    def through(self, X: Float[Tensor, "N D"], B: Float[Tensor, "P d d"]) -> Float[Tensor, "N P"]:
        """√v r (r / R)^n x̂ᵀ B_p x̂, for forms B that were drawn."""
        x = self._direction(X)
        return self._size(X).unsqueeze(-1) * torch.einsum("ni,pij,nj->np", x, B, x)

    def _size(self, X: Float[Tensor, "N D"]) -> Float[Tensor, " N"]:
        """√v r (r / R)^n, finite."""
        r = self.kernel.polar(X).radius
        size = self.kernel.variance.to(X).sqrt() * r * (r / self.radius).pow(STEEPNESS)
        return size.clamp_max(torch.finfo(X.dtype).max)

    def _direction(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N d"]:
        return project(lift(X / self.kernel.lengthscale.to(X))).direction


def check_horizon(kernel: Kernel, radius: float) -> float:
    """Returns the radius R, if a layer with this kernel may have one."""
    if not isinstance(kernel, ZonalKernel):
        raise TypeError(f"a horizon needs a zonal kernel, got {type(kernel).__name__}; leave horizon=None")
    return checks.positive(radius, "horizon")
