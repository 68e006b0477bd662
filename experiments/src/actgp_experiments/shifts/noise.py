"""Gaussian noise, and salt and pepper."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp_experiments.shifts.arguments import pictures, strength

STANDARD_DEVIATIONS = (0.0, 0.04, 0.06, 0.08, 0.09, 0.10)
REPLACED = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)  # of all values


def gaussian_noise(images: Float[Tensor, "N C H W"], intensity: int, seed: int) -> Float[Tensor, "N C H W"]:
    """Adds independent N(0, σ²) to every value, and clips to [0, 1].

    Args:
        images: [N, C, H, W] with values in [0, 1].
        intensity: 0 to 5, for σ = 0, 0.04, 0.06, 0.08, 0.09, 0.10.
        seed: Of the noise, which is the same at all intensities but for its size.
    """
    pictures(images)
    sigma = strength(intensity, STANDARD_DEVIATIONS)
    rng = np.random.default_rng(checks.integer(seed, "seed", minimum=0))
    if sigma == 0:
        return images.clone()
    # NumPy fills arrays in order, so that more images begin with the noise of fewer; torch.randn does not promise it.
    noise = torch.from_numpy(rng.standard_normal(tuple(images.shape), dtype=np.float32)).to(images)
    return (images + sigma * noise).clamp(0.0, 1.0)


def salt(images: Float[Tensor, "N C H W"], intensity: int, seed: int) -> Float[Tensor, "N C H W"]:
    """Replaces values at random, half of them by 0 and half by 1.

    Args:
        images: [N, C, H, W] with values in [0, 1].
        intensity: 0 to 5, for 0, 0.02, 0.05, 0.1, 0.2, 0.3 of all values; those of lower ones are among them.
        seed: Of which.
    """
    pictures(images)
    part = strength(intensity, REPLACED)
    rng = np.random.default_rng(checks.integer(seed, "seed", minimum=0))
    if part == 0:
        return images.clone()
    drawn = torch.from_numpy(rng.random((len(images), 2, *images.shape[1:]), dtype=np.float32)).to(images.device)
    value = (drawn[:, 1] < 0.5).to(images)
    return torch.where(drawn[:, 0] < part, value, images)
