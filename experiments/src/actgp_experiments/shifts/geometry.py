"""Images that are smaller, and images out of the centre."""

import itertools

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, pad

from actgp import checks
from actgp_experiments.shifts.arguments import pictures, strength

FACTORS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
PIXELS = (0, 2, 4, 6, 8, 10)


def shrink(images: Float[Tensor, "N C H W"], intensity: int) -> Float[Tensor, "N C H W"]:
    """Makes what is in the images smaller, around their centre: bilinear, zero where nothing was before.

    Args:
        images: [N, C, H, W] with values in [0, 1].
        intensity: 0 to 5, for 1, 0.9, 0.8, 0.7, 0.6, 0.5 of the size.
    """
    pictures(images)
    factor = strength(intensity, FACTORS)
    if factor == 1:
        return images.clone()
    back = images.new_tensor([[1 / factor, 0.0, 0.0], [0.0, 1 / factor, 0.0]])
    grid = affine_grid(back.expand(len(images), 2, 3), list(images.shape), align_corners=False)
    return grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False).clamp(0.0, 1.0)


def translate(images: Float[Tensor, "N C H W"], intensity: int, seed: int) -> Float[Tensor, "N C H W"]:
    """Moves each image by whole pixels to the left or right, and as many up or down; zero comes in.

    Args:
        images: [N, C, H, W] with values in [0, 1].
        intensity: 0 to 5, for 0, 2, 4, 6, 8, 10 pixels.
        seed: Of the directions, one of four for each image, the same at all intensities.
    """
    pictures(images)
    pixels = int(strength(intensity, PIXELS))
    rng = np.random.default_rng(checks.integer(seed, "seed", minimum=0))
    if pixels == 0:
        return images.clone()
    moves = pixels * torch.from_numpy(rng.choice((-1, 1), (len(images), 2)))  # [N, 2]: down, to the right
    H, W = images.shape[-2:]
    padded = pad(images, (pixels,) * 4)
    moved = torch.empty_like(images)
    for down, right in itertools.product((-pixels, pixels), repeat=2):
        chosen = (moves == moves.new_tensor([down, right])).all(1)
        top, left = pixels - down, pixels - right
        moved[chosen] = padded[chosen, :, top : top + H, left : left + W]
    return moved
