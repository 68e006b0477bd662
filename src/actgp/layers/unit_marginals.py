"""A layer of units, from its inputs to its marginals: one function, with the gradient derived by hand.

    x ↦ A = Kfu L⁻ᵀ, k(x, x) ↦ mean, var        as in `features.units` and `layers.conditional`

Neither A nor k leaves it, which spares a step of training a good part of what is not arithmetic.
"""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.autocast import full_precision
from actgp.features import units
from actgp.features.units import Shapes, UnitInputs
from actgp.layers import conditional
from actgp.layers.conditional import Marginals
from actgp.linalg import differentiated
from actgp.sphere import Polynomial


def unit_marginals(
    X: Float[Tensor, "N D"],
    inputs: UnitInputs,
    relative: Float[Tensor, "M M"] | None,
    mean: Float[Tensor, "M P"],
    *scales: Float[Tensor, "R P w"],
) -> Marginals:
    """The marginals of f given q(v), with gradients; units in the precision of their inputs, the rest in that of X.

    Args:
        X: What the layer is given.
        inputs: What its units are made of; B is L⁻¹.
        relative: E, a relative change of L⁻¹ whose gradient stands for that of L⁻¹; None where there is none.
        mean: m.
        scales: Panels of S.
    """
    *tensors, sigma = inputs
    return Marginals(*UnitMarginals.apply(sigma, X, *tensors, relative, mean, *scales))


class UnitMarginals(torch.autograd.Function):
    """(X, ℓ, Ŵ, v, L⁻¹, E, m, panels of S) ↦ mean, var for a fixed activation σ̃."""

    @staticmethod
    def forward(ctx: Any, sigma: Polynomial | Shapes, *inputs: Tensor) -> Marginals:
        (X, *of_units), of_q = inputs[:5], inputs[6:]
        A, prior, *unit_kept = units.forward(sigma, X.to(of_units[0].dtype), *of_units)
        A = A.to(X.dtype)
        marginals, kept = conditional.forward(A, prior.to(X.dtype), *of_q)
        ctx.sigma, ctx.numbers = sigma, (len(inputs), len(unit_kept))
        ctx.save_for_backward(*inputs, *unit_kept, A, *kept)
        return marginals

    @staticmethod
    @full_precision
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        given, of_units = ctx.numbers
        saved = ctx.saved_tensors
        inputs, unit_kept, (A, *kept) = saved[:given], saved[given : given + of_units], saved[given + of_units :]
        if torch.is_grad_enabled():
            return None, *differentiated(partial(_plainly, ctx.sigma), inputs, grads)
        (X, *others), relative, of_q = inputs[:5], inputs[5], inputs[6:]
        own = others[0].dtype
        A_grad, prior_grad, *q_grads = conditional.backward((A, *of_q), kept, *grads)
        A_grad = A_grad.to(own)
        X_grad, *unit_grads = units.backward((X.to(own), *others), unit_kept, A_grad, prior_grad.to(own))
        inverse_grad = units.gradient_of_B(unit_kept, A_grad) if relative is None else None
        relative_grad = None if relative is None else torch.mm(A_grad.T, A.to(own))  # Ē = Āᵀ A
        return None, X_grad.to(X.dtype), *unit_grads, inverse_grad, relative_grad, *q_grads


def _plainly(sigma: Polynomial | Shapes, X: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
    """The same in operations that can be differentiated any number of times."""
    lengthscale, directions, variance, B, relative = others[:5]
    B = B if relative is None else B.detach() + relative @ B.detach()
    A, prior = units.plainly(sigma, X.to(B.dtype), lengthscale, directions, variance, B)
    return conditional.plainly(A.to(X.dtype), prior.to(X.dtype), *others[5:])
