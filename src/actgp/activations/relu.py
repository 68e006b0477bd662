"""ReLU, σ(t) = max(0, t)."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp.activations.base import Activation
from actgp.persistence import savable
from actgp.sphere.rectified import rectified_power_energies


@savable
class ReLU(Activation):
    """σ(t) = max(0, t), with closed-form energies.

    Its RKHS norm under the arc-cosine kernel grows without bound with the truncation (paper, section 4.3); prefer
    `Softplus` unless the exact ReLU is what you want.

    Example:
        >>> import actgp
        >>> actgp.ReLU().energies(dimension=3, num_levels=4)  # of level 3 there is nothing
        tensor([0.2500, 0.5000, 0.3125, 0.0000], dtype=torch.float64)
    """

    def forward(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.relu(t)

    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        return torch.tensor(rectified_power_energies(1, dimension, num_levels), dtype=torch.float64)
