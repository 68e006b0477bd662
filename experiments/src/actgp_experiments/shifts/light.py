"""Brightness and contrast."""

import torch
from jaxtyping import Float
from torch import Tensor

from actgp_experiments.shifts.arguments import pictures, strength

ADDED = (0.0, 0.05, 0.10, 0.15, 0.20, 0.30)
KEPT = (1.0, 0.75, 0.5, 0.4, 0.3, 0.15)  # of the distance from the mean


def brightness(images: Float[Tensor, "N C H W"], intensity: int) -> Float[Tensor, "N C H W"]:
    """Raises the value V of hue, saturation and value, which is the largest channel, and clips it to 1.

    With hue and saturation fixed, all channels of a pixel grow by one factor, V' / V; black becomes grey. Where there
    is but one channel, V is that channel.

    Args:
        images: [N, C, H, W] with values in [0, 1].
        intensity: 0 to 5, for V' − V = 0, 0.05, 0.1, 0.15, 0.2, 0.3.
    """
    pictures(images)
    added = strength(intensity, ADDED)
    if added == 0:
        return images.clone()
    V = images.amax(1, keepdim=True)  # [N, 1, H, W]
    brighter = (V + added).clamp_max(1.0)
    return torch.where(V > 0, images / V * brighter, brighter)  # images / V ≤ 1: no overflow for the smallest V


def contrast(images: Float[Tensor, "N C H W"], intensity: int) -> Float[Tensor, "N C H W"]:
    """Draws all pixels towards the mean of each channel of their image.

    Args:
        images: [N, C, H, W] with values in [0, 1].
        intensity: 0 to 5, for 1, 0.75, 0.5, 0.4, 0.3, 0.15 of the distance from it.
    """
    pictures(images)
    kept = strength(intensity, KEPT)
    if kept == 1:
        return images.clone()
    mean = images.mean((2, 3), keepdim=True)  # [N, C, 1, 1]
    return (mean + kept * (images - mean)).clamp(0.0, 1.0)
