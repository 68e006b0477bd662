"""Motion blur: the mean over a short straight path of the camera."""

from math import ceil, exp, pi

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from actgp import checks
from actgp_experiments.shifts.arguments import pictures, strength

STANDARD_DEVIATIONS = (0.0, 1.0, 1.5, 2.0, 2.25, 2.5)  # in pixels


def motion_blur(images: Float[Tensor, "N C H W"], intensity: int, seed: int) -> Float[Tensor, "N C H W"]:
    """Averages over positions t along a straight line, with weights ∝ exp(−t² / 2σ²), t = …, −1, 0, 1, … pixels.

    Beyond an edge, the edge's pixels are repeated. The line goes both ways, so that an image stays where it is; the
    benchmark's goes one way, from −45° to 45°, and has σ = 2 at intensity 4, with a longer tail than at 3.

    Args:
        images: [N, C, H, W] with values in [0, 1].
        intensity: 0 to 5, for σ = 0, 1, 1.5, 2, 2.25, 2.5 pixels.
        seed: Of the directions, one for each image, the same at all intensities.
    """
    pictures(images)
    sigma = strength(intensity, STANDARD_DEVIATIONS)
    rng = np.random.default_rng(checks.integer(seed, "seed", minimum=0))
    if sigma == 0:
        return images.clone()
    angles = torch.from_numpy(rng.uniform(0.0, pi, len(images)))  # [N]
    N, _, H, W = images.shape
    here = affine_grid(torch.eye(2, 3).expand(N, 2, 3).to(images), list(images.shape), align_corners=False)
    pixel = torch.stack([2 / W * angles.cos(), 2 / H * angles.sin()], dim=-1).to(images)[:, None, None]  # [N, 1, 1, 2]
    reach = ceil(3 * sigma)
    weights = {t: exp(-0.5 * (t / sigma) ** 2) for t in range(-reach, reach + 1)}
    blurred = torch.zeros_like(images)
    for t, weight in weights.items():
        moved = grid_sample(images, here + t * pixel, mode="bilinear", padding_mode="border", align_corners=False)
        blurred = blurred + weight / sum(weights.values()) * moved
    return blurred.clamp(0.0, 1.0)
