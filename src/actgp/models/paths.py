"""Paths through the hidden layers of a deep GP."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Paths(NamedTuple):
    """Means and variances of the last layer along sampled paths through the hidden ones.

    And the relative noise there, if it varies with what the last layer is given.
    """

    mean: Float[Tensor, "S N P"]
    variance: Float[Tensor, "S N P"]
    relative: Float[Tensor, "S N 1"] | None


def sampled(
    mean: Float[Tensor, "R H"], variance: Float[Tensor, "R H"], noise: Float[Tensor, "S _ H"], num_rows: int
) -> Float[Tensor, "SN H"]:
    """h = mean + sd ε along S paths of N rows.

    Args:
        mean: Of N rows from which all paths begin, or of those of each path, one path after the other.
        variance: Likewise.
        noise: ε, for each row or for all rows of a path.
        num_rows: N.
    """
    shape = (-1, num_rows, mean.shape[1])
    # the variance is kept away from zero, where its root has no gradient
    sd = variance.clamp_min(torch.finfo(mean.dtype).eps).sqrt()
    return torch.addcmul(mean.view(shape), sd.view(shape), noise).view(-1, mean.shape[1])
