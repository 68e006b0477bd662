"""Zonal series f(t) = Σ_n e_n P_n(t), by Clenshaw's recurrence, with exact derivatives.

The derivative of a series in dimension d is a series in dimension d + 2,

    f'(t) = Σ_{n≥1} e_n · n (n+d−2)/(d−1) · P_{n−1}^{d+2}(t),

so the backward pass is a series again, for which only t and the coefficients are kept. The gradient with respect to the
coefficients is the adjoint map, the moments m_n = Σ_i g_i P_n(t_i). Series and moments are each other's
backward, which makes both differentiable any number of times.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.sphere.gegenbauer import recurrence, slope


def zonal_series(
    t: Float[Tensor, "*shape"], energies: Float[Tensor, "*batch L"], dimension: int
) -> Float[Tensor, "*out"]:
    """Evaluates Σ_n e_n P_n(t) for points t in [−1, 1].

    Args:
        t: Points of any shape.
        energies: Coefficients e_n along the last axis; the leading axes broadcast against `t`.
        dimension: The dimension d ≥ 2 that fixes the polynomials.
    """
    checks.tensor(t, "t")
    checks.tensor(energies, "energies")
    d = checks.integer(dimension, "dimension", minimum=2)
    if energies.ndim == 0 or energies.shape[-1] == 0:
        raise ValueError(
            f"energies must have shape [..., num_levels], got {list(energies.shape)}; pass at least one level"
        )
    return ZonalSeries.apply(t, energies.to(t), d)


class ZonalSeries(torch.autograd.Function):
    """(t, e) ↦ Σ_n e_n P_n(t)."""

    @staticmethod
    def forward(t: Tensor, energies: Tensor, dimension: int) -> Tensor:
        return clenshaw(t, energies, dimension)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        t, energies, ctx.dimension = inputs
        ctx.save_for_backward(t, energies)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        t, energies = ctx.saved_tensors
        grad_t = grad_energies = None
        if ctx.needs_input_grad[0]:
            grad_t = (grad * _derivative(t, energies, ctx.dimension)).sum_to_size(t.shape)
        if ctx.needs_input_grad[1]:
            grad_energies = ZonalMoments.apply(t, grad, energies.shape, ctx.dimension)
        return grad_t, grad_energies, None


class ZonalMoments(torch.autograd.Function):
    """(t, g) ↦ m_n = Σ g P_n(t), summed over every axis along which e_n was broadcast."""

    @staticmethod
    def forward(t: Tensor, g: Tensor, shape: torch.Size, dimension: int) -> Tensor:
        moments = []
        previous, P = torch.zeros_like(t), torch.ones_like(t)
        for n in range(shape[-1]):
            moments.append((g * P).sum_to_size(shape[:-1]))
            A, B = recurrence(n, dimension)
            previous, P = P, A * t * P - B * previous
        return torch.stack(moments, dim=-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, torch.Size, int], output: Tensor) -> None:
        t, g, _, ctx.dimension = inputs
        ctx.save_for_backward(t, g)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        t, g = ctx.saved_tensors
        grad_t = grad_g = None
        if ctx.needs_input_grad[0]:
            grad_t = (g * _derivative(t, grad, ctx.dimension)).sum_to_size(t.shape)
        if ctx.needs_input_grad[1]:
            grad_g = ZonalSeries.apply(t, grad, ctx.dimension)
        return grad_t, grad_g, None, None


def _derivative(t: Tensor, energies: Tensor, dimension: int) -> Tensor:
    """Σ_{n≥1} e_n P_n'(t), a series in dimension d + 2."""
    if energies.shape[-1] == 1:
        return torch.zeros_like(t)
    slopes = torch.tensor([slope(n, dimension) for n in range(1, energies.shape[-1])], dtype=t.dtype, device=t.device)
    return ZonalSeries.apply(t, energies[..., 1:] * slopes, dimension + 2)


def clenshaw(t: Tensor, energies: Tensor, dimension: int) -> Tensor:
    """Σ e_n P_n(t) in plain operations: b_n = e_n + A_n t b_{n+1} − B_{n+1} b_{n+2}, down to b_0 = Σ e_n P_n(t)."""
    num_levels = energies.shape[-1]
    shape = torch.broadcast_shapes(t.shape, energies.shape[:-1])
    b_next = torch.zeros(shape, dtype=t.dtype, device=t.device)
    b = energies[..., num_levels - 1].expand(shape)
    for n in range(num_levels - 2, -1, -1):
        A, _ = recurrence(n, dimension)
        _, B = recurrence(n + 1, dimension)
        b, b_next = torch.addcmul(energies[..., n] - B * b_next, t, b, value=A), b
    return b.clone() if num_levels == 1 else b
