"""A zonal kernel given by its spectrum, s(t) = Σ_n k_n P_n(t)."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp import checks
from actgp.kernels.random_shapes import RandomShapes, SeriesShape
from actgp.kernels.zonal import ZonalKernel
from actgp.persistence import savable
from actgp.sphere import zonal_series


@savable
class SpectralKernel(ZonalKernel):
    """k(x, x') = v r r' Σ_n k_n P_n(t), normalised so that Σ_n k_n = 1.

    Args:
        input_dim: D, the number of inputs.
        energies: k_0, …, k_{Ñ−1}, none negative; only their ratios matter, the variance is the kernel's own.
        batch_shape: gpytorch's batch shape.
        active_dims: gpytorch's: the D columns of X to use, where X has more.

    Example:
        >>> import actgp, torch
        >>> kernel = actgp.SpectralKernel(input_dim=2, energies=[2.0, 1.0, 1.0])
        >>> kernel.energies(dimension=3, num_levels=3)
        tensor([0.5000, 0.2500, 0.2500], dtype=torch.float64)
    """

    def __init__(
        self,
        input_dim: int,
        energies: Sequence[float] | Tensor,
        *,
        batch_shape: torch.Size | None = None,
        active_dims: Sequence[int] | None = None,
    ) -> None:
        super().__init__(input_dim, batch_shape=batch_shape, active_dims=active_dims)
        values = torch.as_tensor(energies, dtype=torch.float64).detach().cpu()
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"energies must have shape [num_levels], got {list(values.shape)}; pass a list of numbers")
        checks.finite(values, "energies")
        if values.min() < 0 or values.sum() == 0:
            raise ValueError(
                f"energies must not be negative and not all be zero, got {values.tolist()}; "
                "a negative energy is no covariance, take absolute values"
            )
        total = values.sum().item()
        normalised = abs(total - 1.0) <= len(values) * torch.finfo(torch.float64).eps  # as those of a file are
        self._energies = values.clone() if normalised else values / total

    def config(self) -> dict[str, Any]:
        return {"energies": self._energies.tolist()}

    def shape(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return zonal_series(t, self._energies, self.dimension)

    def random_shapes(self, num_features: int, *, generator: torch.Generator | None = None) -> RandomShapes:
        return SeriesShape(self._energies, self.dimension)

    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        return given_energies(self._energies, self.dimension, dimension, num_levels)


def given_energies(energies: Float64[Tensor, " K"], own: int, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
    """Given energies, cut or padded with zeros; they belong to the dimension in which they were given."""
    if dimension != own:
        raise ValueError(
            f"a kernel given by energies has a spectrum in its own dimension {own} only, got dimension {dimension}; "
            f"build it with input_dim={dimension - 1}"
        )
    if len(energies) == num_levels:
        return energies.clone()  # nobody is to write into those of a kernel
    return torch.nn.functional.pad(energies, (0, max(0, num_levels - len(energies))))[:num_levels]
