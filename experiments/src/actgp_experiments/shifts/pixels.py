"""Pixelation."""

import torch
from jaxtyping import Float
from torch import Tensor

from actgp_experiments.shifts.arguments import pictures, strength

RESOLUTIONS = (1.0, 0.95, 0.90, 0.85, 0.75, 0.65)  # of the original


def pixelate(images: Float[Tensor, "N C H W"], intensity: int) -> Float[Tensor, "N C H W"]:
    """Averages over the blocks of a coarser grid.

    A block is one or two pixels high and wide. The change that this makes to photographs has the size of the
    benchmark's, which makes an image smaller and larger again.

    Args:
        images: [N, C, H, W] with values in [0, 1].
        intensity: 0 to 5, for H and W times 1, 0.95, 0.9, 0.85, 0.75, 0.65 blocks, rounded down.
    """
    pictures(images)
    resolution = strength(intensity, RESOLUTIONS)
    if resolution == 1:
        return images.clone()
    rows, columns = (_averages(size, max(int(size * resolution), 1)).to(images) for size in images.shape[-2:])
    return (rows @ images @ columns.T).clamp(0.0, 1.0)


def _averages(size: int, num_blocks: int) -> Float[Tensor, "size size"]:
    """The matrix that replaces each of `size` numbers by the mean of its block: a projection."""
    block = torch.arange(size) * num_blocks // size  # [size]
    same = (block[:, None] == block).double()
    return same / same.sum(-1, keepdim=True)
