"""Functions of t with their exact derivative, so that t = ±1 is an ordinary point.

Automatic differentiation of arccos t or √(1−t²) meets 0 · ∞ at t = ±1, where every kernel has its diagonal. The
derivatives of the shapes built from them are finite there, and are given instead.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Function = Callable[[Tensor], Tensor]


def with_derivative(t: Float[Tensor, "*shape"], value: Function, derivative: Function) -> Float[Tensor, "*shape"]:
    """value(t), whose gradient is derivative(t); `derivative` may itself be differentiable."""
    return _WithDerivative.apply(t, value, derivative)


class _WithDerivative(torch.autograd.Function):
    @staticmethod
    def forward(t: Tensor, value: Function, derivative: Function) -> Tensor:
        return value(t)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Function, Function], output: Tensor) -> None:
        t, _, ctx.derivative = inputs
        ctx.save_for_backward(t)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (t,) = ctx.saved_tensors
        return grad * ctx.derivative(t), None, None
