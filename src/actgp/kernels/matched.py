"""The kernel matched to an activation: k_n ∝ |a_n|.

Then c_n = a_n² / k_n ∝ |a_n|: the activation's levels are the kernel's, its norm is finite at every truncation, and no
prior variance sits on levels which the activation does not have.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp import checks
from actgp.activations import Activation
from actgp.activations import activation as activation_of
from actgp.kernels.random_shapes import RandomShapes, SeriesShape
from actgp.kernels.spectral import given_energies
from actgp.kernels.zonal import ZonalKernel
from actgp.persistence import savable
from actgp.sphere import zonal_series


@savable
class MatchedKernel(ZonalKernel):
    """k(x, x') = v r r' Σ_{n<Ñ} k_n P_n(t) with k_n = |a_n| / Σ |a_n|.

    Args:
        input_dim: D, the number of inputs.
        activation: The activation, or its name. If its sharpness is learnable, the kernel follows it.
        num_levels: Ñ, as many as the features that are to use the kernel.
        batch_shape: gpytorch's batch shape.
        active_dims: gpytorch's: the D columns of X to use, where X has more.

    Example:
        >>> import actgp, torch
        >>> kernel = actgp.MatchedKernel(input_dim=2, activation="tanh")
        >>> kernel(torch.zeros(1, 2), torch.ones(1, 2)).to_dense().shape
        torch.Size([1, 1])
    """

    def __init__(
        self,
        input_dim: int,
        activation: str | Activation = "softplus",
        num_levels: int = 20,
        *,
        batch_shape: torch.Size | None = None,
        active_dims: Sequence[int] | None = None,
    ) -> None:
        super().__init__(input_dim, batch_shape=batch_shape, active_dims=active_dims)
        self.activation = activation_of(activation)
        self.num_levels = checks.integer(num_levels, "num_levels", minimum=1)
        if not self.activation.energies(self.dimension, self.num_levels).any():
            raise ValueError(
                f"the activation must have energy on some level, got none on the first {self.num_levels}; "
                "raise num_levels"
            )

    def config(self) -> dict[str, Any]:
        return {"activation": self.activation, "num_levels": self.num_levels}

    def shape(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return zonal_series(t, self._matched(), self.dimension)

    def random_shapes(self, num_features: int, *, generator: torch.Generator | None = None) -> RandomShapes:
        return SeriesShape(self._matched().detach(), self.dimension)

    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        return given_energies(self._matched(), self.dimension, dimension, num_levels)

    def _matched(self) -> Float64[Tensor, " K"]:
        a = self.activation.energies(self.dimension, self.num_levels)
        return a.abs() / a.abs().sum() if a.requires_grad else _normalised(tuple(a.tolist()), a.device)


@lru_cache(maxsize=256)
def _normalised(a: tuple[float, ...], device: torch.device) -> Float64[Tensor, " K"]:
    sizes = torch.tensor(a, dtype=torch.float64, device=device).abs()
    return sizes / sizes.sum()
