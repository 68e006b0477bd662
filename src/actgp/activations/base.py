"""What an activation is: a function σ of t ∈ [−1, 1], and its energies on every sphere."""

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Float, Float64
from torch import Tensor, nn


class Activation(nn.Module, ABC):
    """A shape function of a network, σ(t) = Σ_n a_n P_n(t).

    On data it acts as g(x) = r σ(ŵ · x̂), with r = ‖x̃‖ the radius of the lifted input. For ReLU this is the hidden unit
    max(0, ŵ · x̃). For σ(t) = u(β t) / β it is the hidden unit with the sharpness β / r, u(β ŵ · x̃ / r) r / β.

    Example:
        >>> import actgp
        >>> softplus = actgp.Softplus()
        >>> isinstance(softplus, actgp.Activation), softplus.energies(dimension=3, num_levels=4).shape
        (True, torch.Size([4]))
    """

    @abstractmethod
    def forward(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """σ(t)."""

    def config(self) -> dict[str, Any]:
        """The arguments of its constructor, for files (`persistence`)."""
        return {}

    @abstractmethod
    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        """a_n = σ_n N_n for n < Ñ; differentiable where the activation has learnable parameters."""
