"""The marginals of a layer in a training step, with gradients derived by hand. A bar is the gradient of the loss.

Each function stands for the plain formula that is named here, and gives the same numbers with fewer operations and less
memory. Second derivatives are those of the plain formula.

`through_units`, for `features.units.through_units`: with T = X̂ Ŵᵀ, H = r φ(T), A = H Bᵀ and k = v r²,

    B̄ = Āᵀ H,   T̄ = (Ā B) ∘ φ'(T),   Ŵ̄ = T̄ᵀ X̃,   r r̄ = Σ (Ā B) ∘ H + 2 k k̄,   v̄ = Σ k̄ r²,
    x̃̄ = t̄ Ŵ + x̃ (r r̄ − ⟨x̃, t̄ Ŵ⟩) / r²,   x̄ = x̃̄ / ℓ,   ℓ̄ = −Σ x̄ ∘ x / ℓ       (T̄ stands for that of r T)

`conditional_marginals`, for `layers.variational.conditional_marginals`: with C_p = A S_p, and for gradients μ̄ of the
mean and v̄_p of var_p,

    C̄_p = 2 C_p ∘ v̄_p,   S̄_p = Aᵀ C̄_p,   k̄ = Σ_p v̄_p,   Ā = Σ_p C̄_p S_pᵀ + μ̄ mᵀ − 2 A ∘ k̄

Where round-off makes k − Σ A² negative, it is set to zero, and k̄ too.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vecdot

from actgp.autocast import full_precision
from actgp.features import units as plain_units
from actgp.features.units import Shapes, Units
from actgp.layers import variational as plain
from actgp.layers.variational import Marginals, columns_of, product
from actgp.linalg import times_few
from actgp.sphere import lift, project


def through_units(
    X: Float[Tensor, "N D"], units: Units, B: Float[Tensor, "K M"]
) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
    """√v H Bᵀ and k(x, x); by the plain formula where shapes are learnt."""
    if not units.shapes.fixed:
        return plain_units.through_units(X, units, B)
    scaled = units.variance.sqrt() * B
    return ThroughUnits.apply(units.shapes, X, units.lengthscale, units.vectors, units.variance, scaled)


class ThroughUnits(torch.autograd.Function):
    """(X, ℓ, Ŵ, v, B) ↦ H Bᵀ, k for fixed shapes φ."""

    @staticmethod
    def forward(ctx: Any, shapes: Shapes, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        X, lengthscale, directions, variance, B = inputs
        lifted = lift(X / lengthscale)
        radius, x = project(lifted)
        value, slope = shapes.with_slope(torch.mm(x, directions.T))
        H = value.mul_(radius.unsqueeze(-1))
        squared = radius.square_()
        ctx.shapes = shapes
        ctx.set_materialize_grads(False)  # a network has no use for k
        ctx.save_for_backward(*inputs, lifted, squared, H, slope)
        return times_few(H, B.T), squared * variance

    @staticmethod
    @full_precision
    def backward(ctx: Any, A_grad: Tensor | None, prior_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs, (lifted, squared, H, slope) = ctx.saved_tensors[:5], ctx.saved_tensors[5:]
        X, lengthscale, directions, variance, B = inputs
        A_grad = X.new_zeros(len(X), len(B)) if A_grad is None else A_grad
        if torch.is_grad_enabled():
            prior_grad = X.new_zeros(len(X)) if prior_grad is None else prior_grad
            return None, *differentiated(partial(plain_units.units_product, ctx.shapes), inputs, (A_grad, prior_grad))
        H_grad, variance_grad = torch.mm(A_grad, B), None
        along = vecdot(H_grad, H)  # r r̄
        if prior_grad is not None:
            weighted = prior_grad * squared
            along.addcmul_(weighted, variance, value=2.0)
            variance_grad = weighted.sum()
        t_grad = H_grad.mul_(slope)
        lifted_grad = times_few(t_grad, directions)
        along.sub_(vecdot(lifted, lifted_grad)).div_(squared)
        X_grad = lifted_grad.addcmul_(lifted, along.unsqueeze(-1))[:, :-1].div_(lengthscale)  # x̃̄ / ℓ
        lengthscale_grad = (X_grad * X).sum(0, keepdim=True).div_(lengthscale).neg_()  # x̃ = x / ℓ
        directions_grad, B_grad = times_few(t_grad.T, lifted), torch.mm(A_grad.T, H)
        return None, X_grad, lengthscale_grad, directions_grad, variance_grad, B_grad


def conditional_marginals(
    A: Float[Tensor, "N M"], prior: Float[Tensor, " N"], mean: Float[Tensor, "M P"], *scales: Float[Tensor, "B P B"]
) -> Marginals:
    """The marginals of f given q(v)."""
    return Marginals(*Conditional.apply(A, prior, mean, *scales))


class Conditional(torch.autograd.Function):
    """(A, k, m, blocks of S) ↦ mean, var."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, prior: Tensor, mean: Tensor, *scales: Tensor) -> Marginals:
        excess = vecdot(A, A).sub_(prior).clamp_max_(0.0)  # Σ A² − k
        products = [product(columns, S) for columns, S in zip(columns_of(A, scales), scales, strict=True)]
        first, *others = (torch.linalg.vector_norm(C, dim=-1).square_() for C in products)
        variance = first.sub_(excess.unsqueeze(-1))
        for squares in others:
            variance.add_(squares)
        ctx.number = len(scales)
        ctx.save_for_backward(A, prior, mean, *scales, excess, *products)
        return Marginals(times_few(A, mean).contiguous(), variance)

    @staticmethod
    @full_precision
    def backward(ctx: Any, mean_grad: Tensor, variance_grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, (excess, *products) = ctx.saved_tensors[: 3 + ctx.number], ctx.saved_tensors[3 + ctx.number :]
        if torch.is_grad_enabled():
            return differentiated(plain.conditional_marginals, inputs, (mean_grad, variance_grad))
        A, _, mean, *scales = inputs
        prior_grad = variance_grad.sum(-1).mul_(excess < 0)
        A_grad, doubled, scales_grad = torch.mm(mean_grad, mean.T), (variance_grad + variance_grad).unsqueeze(-1), []
        parts = zip(columns_of(A, scales), columns_of(A_grad, scales), scales, products, strict=True)
        for columns, columns_grad, S, C in parts:
            C_grad = (C * doubled).flatten(1)
            columns_grad.addmm_(C_grad, S.flatten(1).T)
            scales_grad.append(torch.mm(columns.T, C_grad).view(S.shape))
        A_grad.addcmul_(A, prior_grad.unsqueeze(-1), value=-2.0)
        return A_grad, prior_grad, times_few(A.T, mean_grad).contiguous(), *scales_grad


def differentiated(
    function: Callable[..., tuple[Tensor, ...]], inputs: tuple[Tensor | None, ...], grads: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """The gradient of a plain formula, as a function that can be differentiated again, for second derivatives.

    One input may have been computed from another: what goes through that is not to be counted here; views see to it.
    """
    inputs = tuple(x.view_as(x) if x is not None and x.requires_grad else x for x in inputs)
    needed = [x for x in inputs if x is not None and x.requires_grad]
    gradients = iter(torch.autograd.grad(function(*inputs), needed, grads, create_graph=True, allow_unused=True))
    return tuple(next(gradients) if x is not None and x.requires_grad else None for x in inputs)
