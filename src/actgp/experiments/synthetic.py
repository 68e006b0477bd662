"""A synthetic regression of one input, y = sin 3x + 0.3 x + noise, and the exact GP fitted to it."""

from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float64
from torch import Tensor

from actgp.models import GPR
from actgp.training import fit

NUM_DATA = 50
EXTENT = 1.5  # data lie in |x| ≤ 1.5
NOISE = 0.1
SEED = 2


class Data(NamedTuple):
    """Inputs and targets."""

    X: Float64[Tensor, "N 1"]
    y: Float64[Tensor, " N"]


def data() -> Data:
    """The training set, always the same."""
    generator = torch.Generator().manual_seed(SEED)
    X = EXTENT * (2 * torch.rand(NUM_DATA, 1, dtype=torch.float64, generator=generator) - 1)
    noise = NOISE * torch.randn(NUM_DATA, dtype=torch.float64, generator=generator)
    return Data(X, torch.sin(3 * X[:, 0]) + 0.3 * X[:, 0] + noise)


def grid(extent: float, num_points: int = 201) -> Float64[Tensor, "N 1"]:
    """Inputs to predict at, |x| ≤ extent."""
    return torch.linspace(-extent, extent, num_points, dtype=torch.float64).unsqueeze(-1)


def exact_gp(kernel: Kernel) -> GPR:
    """Exact GP regression, its hyper-parameters at the maximum of the log evidence."""
    model = GPR(*data(), kernel)
    fit(model, progress=False)
    return model
