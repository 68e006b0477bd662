"""What makes a layer forget, far from all data.

A zonal kernel's means and standard deviations both grow with the radius r = ‖[x / ℓ, 1]‖: along a ray a class stays as
probable as it is, however far one goes. A quadratic form, of which q knows nothing, is added to each output,

    f(x) + √v x̃ᵀ B x̃ / R,   B_ij ~ N(0, 1),     covariance v (x̃ · x̃')² / R²,     variance v r⁴ / R².

It is a part of the prior that no data are spent on, so that the bound stays one. Within r ≪ R it is a (r / R)² of the
kernel's variance; beyond R it outgrows what the layer has learnt, and every class becomes as probable as any other.
"""

from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.kernels import ZonalKernel
from actgp.sphere import lift


@dataclass(frozen=True)
class Horizon:
    """The quadratic form of a layer with a zonal kernel.

    Attributes:
        kernel: The layer's.
        radius: R, beyond which it prevails.
    """

    kernel: ZonalKernel
    radius: float

    def variance(self, X: Float[Tensor, "N D"]) -> Float[Tensor, " N"]:
        """v r⁴ / R², or the largest number that there is: still finite, and more than what the layer has learnt."""
        r = self.kernel.polar(X).radius
        variance = self.kernel.variance.to(X) * (r.square() / self.radius).square()
        return variance.clamp_max(torch.finfo(X.dtype).max)

    def covariance(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N N"]:
        """v (x̃ · x̃')² / R²."""
        x = self._lifted(X)
        return self.kernel.variance.to(X) * (x @ x.T / self.radius).square()

    def through(self, X: Float[Tensor, "N D"], B: Float[Tensor, "P d d"]) -> Float[Tensor, "N P"]:
        """√v x̃ᵀ B_p x̃ / R, for forms B that were drawn."""
        x = self._lifted(X)
        return self.kernel.variance.to(X).sqrt() / self.radius * torch.einsum("ni,pij,nj->np", x, B, x)

    def _lifted(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N d"]:
        return lift(X / self.kernel.lengthscale.to(X))


def check_horizon(kernel: Kernel, radius: float) -> float:
    """Returns the radius R, if a layer with this kernel may have one."""
    if not isinstance(kernel, ZonalKernel):
        raise TypeError(f"a horizon needs a zonal kernel, got {type(kernel).__name__}; leave horizon=None")
    return checks.positive(radius, "horizon")
