"""A synthetic regression of one input, the demo's waves, and the exact GP fitted to it."""

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float64
from torch import Tensor

from actgp.demo.data import waves
from actgp.models import GPR
from actgp.training import fit


def grid(extent: float, num_points: int = 201) -> Float64[Tensor, "N 1"]:
    """Inputs to predict at, |x| ≤ extent."""
    return torch.linspace(-extent, extent, num_points, dtype=torch.float64).unsqueeze(-1)


def exact_gp(kernel: Kernel) -> GPR:
    """Exact GP regression, its hyper-parameters at the maximum of the log evidence."""
    model = GPR(*waves(), kernel)
    fit(model, progress=False)
    return model
