"""The expected log-likelihood of Gaussian noise, with the gradient derived by hand.

e = −½ Σ_p (log 2πσ² + ((y − μ)² + s²) / σ²)

μ̄ = ē (y − μ) / σ²,   s̄² = −½ ē / σ²,   σ̄² = ½ Σ ē (((y − μ)² + s²) / σ² − 1) / σ²
"""

from math import log, pi
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.fused.plain import differentiated


def gaussian_expectation(
    y: Float[Tensor, "N P"],
    mean: Float[Tensor, "*batch N P"],
    variance: Float[Tensor, "*batch N P"],
    noise: Float[Tensor, "..."],
) -> Float[Tensor, "*batch N"]:
    """E[log N(y; f, σ²)], f ~ N(mean, variance), summed over outputs.

    Args:
        y: Targets.
        mean: Means of q(f).
        variance: Variances of q(f).
        noise: σ².
    """
    return GaussianExpectation.apply(y, mean, variance, noise)


class GaussianExpectation(torch.autograd.Function):
    """(y, μ, s², σ²) ↦ e."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
        residual = y - mean
        relative = torch.addcmul(variance, residual, residual).div_(noise)  # ((y − μ)² + s²) / σ²
        ctx.save_for_backward(y, mean, variance, noise, residual, relative)
        return (relative + noise.log().add_(log(2 * pi))).sum(-1).mul_(-0.5)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, mean, variance, noise, residual, relative = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiated(lambda *given: (_plainly(*given),), (y, mean, variance, noise), (grad,))
        weights = (grad.unsqueeze(-1) / noise).expand_as(relative)
        mean_grad = residual * weights
        y_grad = (-mean_grad).sum_to_size(y.shape) if ctx.needs_input_grad[0] else None
        noise_grad = torch.mul(relative - 1.0, weights).sum_to_size(noise.shape).mul_(0.5)
        return y_grad, mean_grad.sum_to_size(mean.shape), (-0.5 * weights).sum_to_size(variance.shape), noise_grad


def _plainly(y: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """The same in operations that can be differentiated any number of times."""
    return -0.5 * (log(2 * pi) + noise.log() + ((y - mean).square() + variance) / noise).sum(-1)
