"""Quasi-random points of the normal distribution, which cover it better than as many independent draws. Seeds."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float64
from torch import Tensor


def normal_points(num_points: int, dimension: int, seed: int) -> Float64[Tensor, "K H"]:
    """Scrambled Sobol points, taken to the standard normal distribution; consecutive runs of them cover it too."""
    if dimension == 0:
        return torch.zeros(num_points, 0, dtype=torch.float64)
    points = torch.quasirandom.SobolEngine(dimension, scramble=True, seed=seed).draw(num_points, dtype=torch.float64)
    smallest = torch.finfo(torch.float64).eps
    return torch.special.ndtri(points.clamp(smallest, 1 - smallest))


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Global generators, of the CPU and of a device, begin at a seed in this context, and are put back after it."""
    own = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=own):
        torch.default_generator.manual_seed(seed)
        for gpu in own:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield
