"""Networks and data to convert."""

from itertools import pairwise

import torch
from torch import nn


def mlp(
    activation: type[nn.Module] = nn.Softplus, widths: tuple[int, ...] = (3, 16, 16, 1), seed: int = 0
) -> nn.Sequential:
    """A network with weights of about the size that training gives them."""
    g = torch.Generator().manual_seed(seed)
    modules: list[nn.Module] = []
    for i, (before, after) in enumerate(pairwise(widths)):
        linear = nn.Linear(before, after)
        with torch.no_grad():
            linear.weight.copy_(torch.randn(after, before, generator=g) * (1.5 / before) ** 0.5)
            linear.bias.copy_(0.5 * torch.randn(after, generator=g) + (3.0 if i == len(widths) - 2 else 0.0))
        modules += [linear, activation()]
    return nn.Sequential(*modules[:-1])


def data(N: int = 300, D: int = 3, dtype: torch.dtype = torch.float32, seed: int = 1) -> torch.Tensor:
    return torch.randn(N, D, dtype=dtype, generator=torch.Generator().manual_seed(seed))
