"""The marginals of a layer: `layers.variational.conditional_marginals`, with the gradient derived by hand.

With C_p = A S_p and a bar for the gradient of a result with respect to what it stands over:

    C̄_p = 2 C_p ∘ v̄_p,   S̄_p = Aᵀ C̄_p,   k̄ = Σ_p v̄_p,   Ā = Σ_p C̄_p S_pᵀ + μ̄ mᵀ − 2 A ∘ k̄

for the gradients μ̄ of the mean and v̄_p of var_p. Where round-off makes k − Σ A² negative, it is set to zero, and k̄ too.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vecdot

from actgp.autocast import full_precision
from actgp.features.units import ROWS
from actgp.fused.plain import differentiated
from actgp.layers import variational as plain
from actgp.layers.variational import Marginals, columns_of, product
from actgp.linalg import times_few


def conditional_marginals(
    A: Float[Tensor, "N M"], prior: Float[Tensor, " N"], mean: Float[Tensor, "M P"], *scales: Float[Tensor, "B P B"]
) -> Marginals:
    """The marginals of f given q(v); where no gradient is wanted, by the plain formula, some rows at a time."""
    if torch.is_grad_enabled():
        return Marginals(*Conditional.apply(A, prior, mean, *scales))
    rows = ROWS * torch.get_num_threads()
    parts = zip(A.split(rows), prior.split(rows), strict=True)
    found = [plain.conditional_marginals(*part, mean, *scales) for part in parts]
    return Marginals(*(torch.cat(values) for values in zip(*found, strict=True)))


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
