"""Zonal series f(t) = Σ_n e_n P_n(t), with exact derivatives of every order.

A series whose energies are to be differentiated is summed by Clenshaw's recurrence (`gegenbauer`); its derivative in t
is a series again, of dimension d + 2, and the gradient with respect to the energies is the adjoint map, the moments
m_n = Σ_i g_i P_n(t_i). Series and moments are each other's backward, which makes both differentiable any number of
times, and only t and energies are kept.

How a series with fixed energies is summed is chosen once (`polynomial`).
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.sphere.gegenbauer import clenshaw, recurrence, slope
from actgp.sphere.polynomial import evaluated, polynomial


def zonal_series(
    t: Float[Tensor, "*shape"], energies: Float[Tensor, "*batch L"], dimension: int
) -> Float[Tensor, "*out"]:
    """Evaluates Σ_n e_n P_n(t) for points t in [−1, 1].

    Args:
        t: Points of any shape.
        energies: Coefficients e_n along the last axis; the leading axes broadcast against `t`.
        dimension: The dimension d ≥ 2 that fixes the polynomials.

    Returns:
        The sums, of the shape of `t` behind the leading axes of `energies`.

    Example:
        >>> import actgp, torch
        >>> t = torch.linspace(-1, 1, 5, dtype=torch.float64)
        >>> energies = actgp.Softplus().energies(dimension=3, num_levels=40)
        >>> torch.allclose(actgp.zonal_series(t, energies, dimension=3), actgp.Softplus()(t))
        True
    """
    checks.tensor(t, "t")
    checks.tensor(energies, "energies")
    d = checks.integer(dimension, "dimension", minimum=2)
    if energies.ndim == 0 or energies.shape[-1] == 0:
        raise ValueError(
            f"energies must have shape [..., num_levels], got {list(energies.shape)}; pass at least one level"
        )
    if energies.ndim == 1 and not energies.requires_grad:
        return evaluated(polynomial(tuple(energies.tolist()), d, t.dtype, t.device), t)
    return Series.apply(t, energies, d)


class Series(torch.autograd.Function):
    """(t, e) ↦ Σ_n e_n P_n(t), in the precision of t; energies may have a finer one."""

    @staticmethod
    def forward(t: Tensor, energies: Tensor, dimension: int) -> Tensor:
        shape = torch.broadcast_shapes(t.shape, energies.shape[:-1])
        # A single series is summed with numbers.
        single = energies.ndim == 1
        levels: list[float | Tensor] = energies.tolist() if single else list(energies.to(t).unbind(-1))
        return clenshaw(t, levels, dimension, shape)

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
            grad_energies = Moments.apply(t, grad, energies.shape, ctx.dimension).to(energies.dtype)
        return grad_t, grad_energies, None


class Moments(torch.autograd.Function):
    """(t, g) ↦ m_n = Σ g P_n(t), summed over every axis along which e_n was broadcast."""

    @staticmethod
    def forward(t: Tensor, g: Tensor, shape: torch.Size, dimension: int) -> Tensor:
        moments = []
        before, P = torch.zeros_like(t), torch.ones_like(t)
        for n in range(shape[-1]):
            moments.append((g * P).sum_to_size(shape[:-1]))
            A, B = recurrence(n, dimension)
            before, P = P, A * t * P - B * before
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
            grad_g = Series.apply(t, grad, ctx.dimension)
        return grad_t, grad_g, None, None


def _derivative(t: Tensor, energies: Tensor, dimension: int) -> Tensor:
    """Σ_{n≥1} e_n P_n'(t), a series of dimension d + 2."""
    if energies.shape[-1] == 1:
        return torch.zeros_like(t)
    factors = torch.tensor([slope(n, dimension) for n in range(1, energies.shape[-1])], dtype=torch.float64)
    return Series.apply(t, energies[..., 1:] * factors.to(energies), dimension + 2)
