"""A zonal kernel from any positive-definite shape function."""

from collections.abc import Callable, Sequence

import mpmath
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp.kernels.zonal import ZonalKernel
from actgp.sphere.custom import CustomShape

CHECKED_LEVELS = 20


class CustomKernel(ZonalKernel):
    """k(x, x') = v r r' s(t) with a shape given by a function.

    Args:
        input_dim: D, the number of inputs.
        function: s(t) of a tensor, elementwise, with s(1) = 1 and no negative energy in dimension D + 1.
        exact: The same function of an mpmath number, for energies to full accuracy; see `CustomActivation`.
        batch_shape: gpytorch's batch shape.
        active_dims: gpytorch's: the D columns of X to use, where X has more.

    Example:
        >>> import actgp, mpmath, torch
        >>> kernel = actgp.CustomKernel(2, lambda t: torch.exp(t - 1), exact=lambda t: mpmath.exp(t - 1))
        >>> kernel.shape(torch.tensor([0.0, 1.0]))
        tensor([0.3679, 1.0000])
    """

    def __init__(
        self,
        input_dim: int,
        function: Callable[[Tensor], Tensor],
        exact: Callable[[mpmath.mpf], mpmath.mpf] | None = None,
        *,
        batch_shape: torch.Size | None = None,
        active_dims: Sequence[int] | None = None,
    ) -> None:
        super().__init__(input_dim, batch_shape=batch_shape, active_dims=active_dims)
        self.custom = CustomShape(function, exact)
        at_one = function(torch.ones(1, dtype=torch.float64)).item()
        if abs(at_one - 1) > 1e-8:
            raise ValueError(
                f"a kernel's shape must have s(1) = 1, got {at_one}; divide by it, and set the kernel's variance"
            )
        energies = self.custom.energies(self.dimension, CHECKED_LEVELS)
        lowest = min(range(CHECKED_LEVELS), key=energies.__getitem__)
        if energies[lowest] < 0:
            raise ValueError(
                f"a kernel's energies must not be negative, got {energies[lowest]:.3g} at level {lowest} in dimension "
                f"{self.dimension}; the function is not positive definite there, choose another"
            )

    def shape(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.custom.function(t)

    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        return torch.tensor(self.custom.energies(dimension, num_levels), dtype=torch.float64)
