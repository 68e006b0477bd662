"""Gaussian noise."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp_experiments.shifts.arguments import pictures, strength

STANDARD_DEVIATIONS = (0.0, 0.04, 0.06, 0.08, 0.09, 0.10)


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
