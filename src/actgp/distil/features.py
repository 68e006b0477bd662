"""What the heads of a student see: where a row lies, and what the trunk says of it, bounded however far away it is.

z = (x − c) / s,    z / √(1 + ‖z‖² / ρ²)      for places: the direction stays, the length stays below ρ
4 tanh(z / 4)                                 for numbers
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.distil.trunk import Along

REACH = 3.0  # ρ, in multiples of the length that rows have
BOUND = 4.0
SMALLEST = 1e-12
LEAST_SPREAD = 0.1  # that logarithms are divided by: rows of an exact GP have the same variance but for round-off
SMALLEST_SHARE = 1e-6  # of the prior variance, that is told from nothing: less is round-off


class Standardised(nn.Module):
    """Columns with zero mean and unit variance on given rows, then bounded.

    Args:
        values: The rows.
        place: Whether a row is a place; otherwise its columns are numbers of their own.
        least: What columns are divided by at least.
    """

    centre: Tensor
    scale: Tensor
    reach: Tensor

    def __init__(self, values: Float[Tensor, "N D"], *, place: bool, least: Float[Tensor, " D"] | None = None) -> None:
        super().__init__()
        centre, spread = values.mean(0), values.std(0, correction=0)
        scale = torch.where(spread > SMALLEST, spread, torch.ones_like(spread))
        scale = scale if least is None else torch.maximum(scale, least)
        length = ((values - centre) / scale).square().sum(1).mean().sqrt().clamp_min(1.0)
        self.register_buffer("centre", centre)
        self.register_buffer("scale", scale)
        self.register_buffer("reach", REACH * length if place else length.new_zeros(0))

    def forward(self, values: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        z = (values - self.centre) / self.scale
        if len(self.reach.shape) > 0:
            return BOUND * torch.tanh(z / BOUND)
        return z / (1.0 + (z / self.reach).square().sum(1, keepdim=True)).sqrt()


class Features(nn.Module):
    """Places, x and h̄, and numbers: logarithms of variances, and the means.

    Args:
        h: Rows of data, what they are standardised by.
        along: What the trunk says of them.
    """

    def __init__(self, h: Float[Tensor, "N D"], along: Along) -> None:
        super().__init__()
        self.x = Standardised(h, place=True)
        self.last = Standardised(along.last, place=True)
        numbers = numbers_of(along)
        least = torch.full_like(numbers[0], LEAST_SPREAD)
        least[-along.mean.shape[1] :] = 0.0  # means are no logarithms
        self.numbers = Standardised(numbers, place=False, least=least)

    def forward(self, h: Float[Tensor, "N D"], along: Along) -> Float[Tensor, "N F"]:
        return torch.cat([self.x(h), self.last(along.last), self.numbers(numbers_of(along))], dim=1)


def numbers_of(along: Along) -> Float[Tensor, "N F"]:
    """Logarithms of what is above zero, and the means."""
    prior = along.prior
    parts = [along.unexplained / prior + SMALLEST_SHARE, along.explained / prior + SMALLEST, prior, along.noise]
    return torch.cat([*(part.log() for part in parts), along.mean], dim=1)
