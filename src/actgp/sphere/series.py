"""Zonal series f(t) = Σ_n e_n P_n(t), with exact derivatives of every order.

A zonal series is summed as a Chebyshev series, whose derivative is a Chebyshev series again: for the backward pass only
t and the coefficients are kept. The gradient with respect to the coefficients is the adjoint map, the moments
m_k = Σ_i g_i T_k(t_i). Series and moments are each other's backward, which makes both differentiable any number of
times. Where only t needs a gradient, `polynomial` is cheaper: value and slope at once.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.sphere.chebyshev import chebyshev_series, connection, differentiation
from actgp.sphere.polynomial import Polynomial, polynomial


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
    if energies.ndim == 1 and not energies.requires_grad:
        return evaluated(polynomial(tuple(energies.tolist()), d, t.dtype, t.device), t)
    return Series.apply(t, (energies @ connection(d, energies.shape[-1]).to(energies)).to(t))


def evaluated(f: Polynomial, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """f(t), with derivatives of every order."""
    return Fixed.apply(t, f) if t.requires_grad and torch.is_grad_enabled() else f(t)


class Fixed(torch.autograd.Function):
    """t ↦ f(t) for a polynomial f; its slope is kept for the backward pass, or found again to be differentiated."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, f: Polynomial) -> Tensor:
        ctx.f = f
        value, slope = f.with_slope(t)
        ctx.save_for_backward(t, slope)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        t, slope = ctx.saved_tensors
        return grad * (evaluated(ctx.f.derivative, t) if torch.is_grad_enabled() else slope), None


class Series(torch.autograd.Function):
    """(t, c) ↦ Σ_k c_k T_k(t)."""

    @staticmethod
    def forward(t: Tensor, coefficients: Tensor) -> Tensor:
        return chebyshev_series(t, coefficients)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        t, coefficients = ctx.saved_tensors
        grad_t = grad_coefficients = None
        if ctx.needs_input_grad[0]:
            grad_t = (grad * _derivative(t, coefficients)).sum_to_size(t.shape)
        if ctx.needs_input_grad[1]:
            grad_coefficients = Moments.apply(t, grad, coefficients.shape)
        return grad_t, grad_coefficients


class Moments(torch.autograd.Function):
    """(t, g) ↦ m_k = Σ g T_k(t), summed over every axis along which c_k was broadcast."""

    @staticmethod
    def forward(t: Tensor, g: Tensor, shape: torch.Size) -> Tensor:
        moments = []
        previous, T = t, torch.ones_like(t)  # T_{−1} = T_1 = t
        for _ in range(shape[-1]):
            moments.append((g * T).sum_to_size(shape[:-1]))
            previous, T = T, 2 * t * T - previous
        return torch.stack(moments, dim=-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, torch.Size], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        t, g = ctx.saved_tensors
        grad_t = grad_g = None
        if ctx.needs_input_grad[0]:
            grad_t = (g * _derivative(t, grad)).sum_to_size(t.shape)
        if ctx.needs_input_grad[1]:
            grad_g = Series.apply(t, grad)
        return grad_t, grad_g, None


def _derivative(t: Tensor, coefficients: Tensor) -> Tensor:
    """Σ_k c_k T_k'(t)."""
    return Series.apply(t, coefficients @ differentiation(coefficients.shape[-1]).to(coefficients))
