"""An activation from any function of t."""

from collections.abc import Callable

import mpmath
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp.activations.base import Activation
from actgp.sphere.custom import CustomShape


class CustomActivation(Activation):
    """σ(t) given by a function.

    Args:
        function: σ(t) of a tensor, elementwise; smooth on (−1, 0) and on (0, 1).
        exact: The same function of an mpmath number, for energies to full accuracy. Without it they come from
            double-precision values, and levels that drown in their round-off are set to zero, which in high
            dimension are most.

    Example:
        >>> import actgp, mpmath, torch
        >>> sine = actgp.CustomActivation(torch.sin, exact=mpmath.sin)
        >>> actgp.spectrum(sine, dimension=3, num_levels=3).energies
        tensor([0.0000, 0.9035, 0.0000], dtype=torch.float64)
    """

    def __init__(
        self, function: Callable[[Tensor], Tensor], exact: Callable[[mpmath.mpf], mpmath.mpf] | None = None
    ) -> None:
        super().__init__()
        self.shape = CustomShape(function, exact)

    def forward(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.shape.function(t)

    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        return torch.tensor(self.shape.energies(dimension, num_levels), dtype=torch.float64)
