"""A small problem of two outcomes."""

import torch
from torch import Tensor


def rows(number: int, columns: int, seed: int) -> Tensor:
    return torch.rand(number, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def values(X: Tensor) -> Tensor:
    """Two outcomes, one with a cliff."""
    return torch.stack([torch.tanh(8 * (X[..., 0] - X[..., 1])) + X[..., 0], -(X - 0.4).square().sum(-1)], -1)
