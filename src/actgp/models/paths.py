"""Paths through the hidden layers of a deep GP, h = μ + s ε with s² = max(var, machine ε), gradients derived by hand.

    μ̄ = Σ h̄,   v̄ar = ½ Σ h̄ ε / s where var is not below the bound, each sum over the paths that begin alike

The variance is kept away from zero, where its root has no gradient.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.linalg import differentiated


def sampled(
    mean: Float[Tensor, "R H"], variance: Float[Tensor, "R H"], noise: Float[Tensor, "S _ H"], num_rows: int
) -> Float[Tensor, "SN H"]:
    """h = mean + sd ε along S paths of N rows.

    Args:
        mean: Of N rows from which all paths begin, or of those of each path, one path after the other.
        variance: Likewise.
        noise: ε, for each row or for all rows of a path.
        num_rows: N.
    """
    shape = (-1, num_rows, mean.shape[1])
    h: Tensor = Sampled.apply(mean.view(shape), variance.view(shape), noise)
    return h.view(-1, mean.shape[1])


class Sampled(torch.autograd.Function):
    """(μ, var) ↦ h for given ε, all [S or 1, N, H]."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
        sd = variance.clamp_min(_smallest(variance)).sqrt_()
        ctx.save_for_backward(mean, variance, noise, sd)
        return torch.addcmul(mean, sd, noise)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        mean, variance, noise, sd = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiated(lambda *given: (_plainly(*given),), (mean, variance, noise), (grad,))
        slopes = (variance >= _smallest(variance)) / (sd + sd)
        noise_grad = (grad * sd).sum_to_size(noise.shape) if ctx.needs_input_grad[2] else None
        return grad.sum_to_size(mean.shape), (grad * noise).sum_to_size(sd.shape).mul_(slopes), noise_grad


def _smallest(variance: Tensor) -> float:
    return torch.finfo(variance.dtype).eps


def _plainly(mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """The same in operations that can be differentiated any number of times."""
    return torch.addcmul(mean, variance.clamp_min(_smallest(variance)).sqrt(), noise)
