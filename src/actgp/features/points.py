"""Classic inducing points, u_m = f(z_m)."""

from typing import Any, ClassVar, TypeGuard

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.features.base import InducingFeatures, Whitening
from actgp.features.units import Shapes, UnitInputs
from actgp.kernels import ZonalKernel
from actgp.persistence import Sizes, savable


def is_zonal(kernel: Kernel) -> TypeGuard[ZonalKernel]:
    """Whether a kernel is that of units: zonal, in all inputs, with fixed energies."""
    if not isinstance(kernel, ZonalKernel) or kernel.active_dims is not None or kernel.batch_shape:
        return False
    return kernel.stamp is not None


@savable
class InducingPoints(InducingFeatures):
    """u_m = f(z_m): Kuu = k(Z, Z), Kuf = k(Z, X), for any gpytorch kernel.

    Args:
        locations: Z, [M, D]; a learnable parameter.
    """

    SIZES: ClassVar[Sizes] = {"locations": ("num_inducing", "input_dim")}

    def __init__(self, locations: Float[Tensor, "M D"]) -> None:
        super().__init__()
        checks.tensor(locations, "locations")
        columns = max(1, locations.shape[-1]) if locations.ndim else 1
        checks.inputs(locations, columns, "locations")
        self.locations = nn.Parameter(locations.detach().clone())

    def config(self) -> dict[str, Any]:
        return {}

    @property
    def num_inducing(self) -> int:
        return self.locations.shape[0]

    @property
    def input_dim(self) -> int:
        return self.locations.shape[1]

    def Kuu(self, kernel: Kernel) -> Float64[Tensor, "M M"]:
        Z = self.locations.double()
        Kuu: Tensor = kernel.forward(Z, Z) if is_zonal(kernel) else kernel(Z).to_dense()
        return Kuu

    def cross(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        Kuf: Tensor = kernel(self.locations.to(X), X).to_dense()
        return Kuf

    def whitening(self, kernel: Kernel, dtype: torch.dtype = torch.float64) -> Whitening:
        plain = super().whitening(kernel, dtype)
        return Whitening(plain.R, *self.units(kernel)) if is_zonal(kernel) else plain

    def units(self, kernel: ZonalKernel) -> tuple[Float64[Tensor, "M d"], None, Tensor, Float64[Tensor, " M"]]:
        """k(z, x) = (v r_z) r s(ẑ · x̂): directions ẑ, no spectra, v, amplitudes v r_z."""
        (radius, directions), variance = kernel.polar(self.locations.double()), kernel.variance
        return directions, None, variance, variance.double() * radius

    def unit_inputs(self, kernel: Kernel, B: Float[Tensor, "K M"], whitening: Whitening) -> UnitInputs | None:
        _, directions, _, variance, amplitudes, _ = whitening
        if directions is None or variance is None or amplitudes is None:
            return None
        scaled, shapes = B * amplitudes.to(B), Shapes(None, 0, kernel)
        return UnitInputs(kernel.lengthscale.to(B), directions.to(B), variance.to(B), scaled, shapes)

    def complaints(self, kernel: Kernel) -> list[str]:
        return []

    def extra_repr(self) -> str:
        return f"num_inducing={self.num_inducing}, input_dim={self.input_dim}"
