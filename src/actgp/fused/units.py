"""A layer of hidden units and what follows it: `features.units.through_units`, with the gradient derived by hand.

    A = H Bᵀ,   H = r φ(T),   T = X̂ Ŵᵀ,   k = v r²

Backwards, with a bar for the gradient of a result with respect to what it stands over, and T̄ for that of r T,

    B̄ = Āᵀ H,   T̄ = (Ā B) ∘ φ'(T),   Ŵ̄ = T̄ᵀ X̃,   r r̄ = Σ (Ā B) ∘ H + 2 k k̄,   v̄ = Σ k̄ r²,
    x̃̄ = t̄ Ŵ + x̃ (r r̄ − ⟨x̃, t̄ Ŵ⟩) / r²,   x̄ = x̃̄ / ℓ,   ℓ̄ = −Σ x̄ ∘ x / ℓ
"""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vecdot

from actgp.autocast import full_precision
from actgp.features import units as plain
from actgp.features.units import Shapes, Units
from actgp.fused.plain import differentiated
from actgp.linalg import times_few
from actgp.sphere import lift, project


def through_units(
    X: Float[Tensor, "N D"], units: Units, B: Float[Tensor, "K M"]
) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
    """√v H Bᵀ and k(x, x); by the plain formula where no gradient is wanted, or shapes are learnt."""
    if not (torch.is_grad_enabled() and units.shapes.fixed):
        return plain.through_units(X, units, B)
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
            return None, *differentiated(partial(plain.units_product, ctx.shapes), inputs, (A_grad, prior_grad))
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
