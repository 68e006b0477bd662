"""The marginals of a layer given whitened covariances, with the gradient derived by hand.

    mean = A m,    var_p = k − Σ A² + Σ (A S_p)²,    A = Kfu L⁻ᵀ: [N, M]

With C_p = A S_p, one product for all p, and a bar for the gradient of a result with respect to what it stands over:

    C̄_p = 2 C_p ∘ v̄_p,   S̄_p = Aᵀ C̄_p,   k̄ = Σ_p v̄_p,   Ā = Σ_p C̄_p S_pᵀ + μ̄ mᵀ − 2 A ∘ k̄

for the gradients μ̄ of the mean and v̄_p of var_p. Where round-off makes k − Σ A² negative, it is set to zero, and k̄ too.

S_p is a lower triangle, or, if q is independent between blocks of variables, one for each block. It comes in panels:
some of its columns, without the rows that are zero in all of them. Each panel has a product of its own with those
columns of A that belong to its rows.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vecdot

from actgp.autocast import full_precision
from actgp.linalg import differentiated, rows_in_cache, times_few, times_wide


class Marginals(NamedTuple):
    """Independent Gaussians, one for each input and output."""

    mean: Float[Tensor, "N P"]
    variance: Float[Tensor, "N P"]


def conditional_marginals(
    A: Float[Tensor, "N M"], prior: Float[Tensor, " N"], mean: Float[Tensor, "M P"], *scales: Float[Tensor, "R P w"]
) -> Marginals:
    """The marginals of f given q(v).

    Args:
        A: Whitened covariances.
        prior: k(x, x).
        mean: m.
        scales: Panels of S, from its first column to its last; the rows of each begin on the diagonal. Rows come
            first, S_p[i, j] at [i, p, j], so that A S_p of all outputs p is one matrix product.
    """
    if torch.is_grad_enabled():
        return Marginals(*Conditional.apply(A, prior, mean, *scales))
    variance, rows = unexplained(A, prior).unsqueeze(-1).repeat(1, mean.shape[1]), rows_in_cache()
    for part, result in zip(A.split(rows), variance.split(rows), strict=True):
        for columns, S in zip(_columns(part, scales), scales, strict=True):
            result.add_(torch.linalg.vector_norm(_product(columns, S), dim=-1).square_())
    return Marginals(times_few(A, mean).contiguous(), variance)


def _columns(A: Float[Tensor, "N M"], scales: Sequence[Tensor]) -> Sequence[Float[Tensor, "N R"]]:
    """Those that belong to the rows of each panel."""
    if len(scales) == 1:
        return (A,)
    starts = accumulate((S.shape[2] for S in scales[:-1]), initial=0)
    return [A[:, start : start + len(S)] for start, S in zip(starts, scales, strict=True)]


def _product(A: Float[Tensor, "N R"], S: Float[Tensor, "R P w"]) -> Float[Tensor, "N P w"]:
    R, P, width = S.shape
    return times_wide(A, S.view(R, P * width)).view(-1, P, width)


def unexplained(A: Float[Tensor, "N M"], prior: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """k(x, x) − Σ A²: the prior variance that no q(v) can explain; never below zero."""
    return (prior - A.square().sum(-1)).clamp_min(0.0)


def forward(
    A: Float[Tensor, "N M"], prior: Float[Tensor, " N"], mean: Float[Tensor, "M P"], *scales: Float[Tensor, "R P w"]
) -> tuple[Marginals, list[Tensor]]:
    """The marginals, and what the way back needs: Σ A² − k, not above zero, and C in panels. Without gradients."""
    excess = vecdot(A, A).sub_(prior).clamp_max_(0.0)
    products = [_product(columns, S) for columns, S in zip(_columns(A, scales), scales, strict=True)]
    first, *others = (torch.linalg.vector_norm(C, dim=-1).square_() for C in products)
    variance = first.sub_(excess.unsqueeze(-1))
    for squares in others:
        variance.add_(squares)
    return Marginals(times_few(A, mean).contiguous(), variance), [excess, *products]


def backward(
    inputs: Sequence[Tensor], kept: Sequence[Tensor], mean_grad: Float[Tensor, "N P"], variance_grad: Tensor
) -> tuple[Tensor, ...]:
    """The gradients of A, k, m and panels of S, the inputs being A, m and these panels."""
    (A, mean, *scales), (excess, *products) = inputs, kept
    prior_grad = variance_grad.sum(-1).mul_(excess < 0)
    A_grad, doubled, scales_grad = torch.mm(mean_grad, mean.T), (variance_grad + variance_grad).unsqueeze(-1), []
    panels = zip(_columns(A, scales), _columns(A_grad, scales), scales, products, strict=True)
    for columns, columns_grad, S, C in panels:
        C_grad = (C * doubled).view(len(A), -1)
        columns_grad.addmm_(C_grad, S.view(len(S), -1).T)
        scales_grad.append(times_wide(columns.T, C_grad).view(S.shape))
    A_grad.addcmul_(A, prior_grad.unsqueeze(-1), value=-2.0)
    return A_grad, prior_grad, times_few(A.T, mean_grad).contiguous(), *scales_grad


class Conditional(torch.autograd.Function):
    """(A, k, m, panels of S) ↦ mean, var."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Marginals:
        marginals, kept = forward(*inputs)
        ctx.number = len(inputs)
        ctx.save_for_backward(*inputs, *kept)
        return marginals

    @staticmethod
    @full_precision
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs, kept = ctx.saved_tensors[: ctx.number], ctx.saved_tensors[ctx.number :]
        if torch.is_grad_enabled():
            return differentiated(plainly, inputs, grads)
        A, _, *others = inputs
        return backward((A, *others), kept, *grads)


def plainly(A: Tensor, prior: Tensor, mean: Tensor, *scales: Tensor) -> tuple[Tensor, Tensor]:
    """The same in operations that can be differentiated any number of times."""
    parts = zip(_columns(A, scales), scales, strict=True)
    squares = [_product(columns, S).square().sum(-1) for columns, S in parts]
    return A @ mean, unexplained(A, prior).unsqueeze(-1) + sum(squares)
