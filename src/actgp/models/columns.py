"""A fixed linear map as a prior mean: which columns of its inputs, or mixtures of them, a layer hands on."""

from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.persistence import Sizes, savable


@savable
class Columns(nn.Module):
    """h ↦ h R.

    Args:
        R: The map; it is not trained.
    """

    SIZES: ClassVar[Sizes] = {"R": ("inputs", "outputs")}
    R: Tensor

    def __init__(self, R: Float[Tensor, "H P"]) -> None:
        super().__init__()
        self.register_buffer("R", torch.as_tensor(R).detach().clone())

    def config(self) -> dict[str, Any]:
        """Its argument is a tensor of its state (`persistence`)."""
        return {}

    def forward(self, h: Float[Tensor, "N H"]) -> Float[Tensor, "N P"]:
        """The columns."""
        return h @ self.R
