"""From data space to the sphere: x ↦ x̃ = [x / ℓ, 1] ↦ (r, x̂) with r = ‖x̃‖ and x̂ = x̃ / r.

The bias coordinate keeps the data away from the origin. Its own lengthscale is fixed at one: a factor
common to all d lengthscales only rescales r, which the kernel's variance v does already.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Polar(NamedTuple):
    """Points of R^d as radius and direction."""

    radius: Float[Tensor, "*batch N"]
    direction: Float[Tensor, "*batch N d"]


def lift(X: Float[Tensor, "*batch N D"]) -> Float[Tensor, "*batch N d"]:
    """Appends the bias coordinate: x ↦ [x, 1], from R^(d−1) to R^d."""
    return torch.cat([X, X.new_ones(*X.shape[:-1], 1)], dim=-1)  # [N, D] -> [N, d]


def project(X: Float[Tensor, "*batch N d"]) -> Polar:
    """Splits points of R^d into radius and direction on the unit sphere."""
    radius = torch.linalg.vector_norm(X, dim=-1)  # [N]
    return Polar(radius, X / radius.unsqueeze(-1))
