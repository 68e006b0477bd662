"""Rotation about the centre."""

from math import cos, isfinite, radians, sin
from numbers import Real

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from actgp_experiments.shifts.arguments import pictures


def rotate(images: Float[Tensor, "N C H W"], degrees: float) -> Float[Tensor, "N C H W"]:
    """Rotates images counter-clockwise about their centre: bilinear, zero where nothing was before.

    Args:
        images: [N, C, H, W] with values in [0, 1].
        degrees: The angle, the same for all; whole turns change nothing.
    """
    pictures(images)
    if not isinstance(degrees, Real) or not isfinite(degrees):
        raise ValueError(f"degrees must be a finite number, got {degrees!r}; pass e.g. 45.0")
    turn = degrees % 360.0
    if turn == 0:
        return images.clone()
    H, W = images.shape[-2:]
    c, s = cos(radians(turn)), sin(radians(turn))
    # Where a pixel (x, y), y downwards, comes from: R(−turn) (x, y), in units of half the width and half the height.
    back = images.new_tensor([[c, -s * H / W, 0.0], [s * W / H, c, 0.0]])
    grid = affine_grid(back.expand(len(images), 2, 3), list(images.shape), align_corners=False)  # [N, H, W, 2]
    return grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False).clamp(0.0, 1.0)
