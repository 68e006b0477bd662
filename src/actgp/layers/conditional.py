"""The marginals of a layer given whitened covariances, with the gradient derived by hand.

    mean = A m,    var_p = k − Σ A² + Σ (A S_p)²,    A = Kfu L⁻ᵀ: [N, M]

With C_p = A S_p, all of them one product, and a bar for the gradient of a result with respect to what it stands over:

    C̄_p = 2 C_p ∘ v̄_p,   S̄_p = Aᵀ C̄_p,   Ā = Σ_p C̄_p S_pᵀ + m̄ean mᵀ − 2 A ∘ Σ_p v̄_p
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.linalg import differentiated

ROWS = 512  # of A at a time, where no gradient is wanted


class Marginals(NamedTuple):
    """Independent Gaussians, one for each input and output."""

    mean: Float[Tensor, "N P"]
    variance: Float[Tensor, "N P"]


def conditional_marginals(
    A: Float[Tensor, "N M"], prior: Float[Tensor, " N"], mean: Float[Tensor, "M P"], scales: Float[Tensor, "M P M"]
) -> Marginals:
    """The marginals of f given q(v).

    Args:
        A: Whitened covariances.
        prior: k(x, x).
        mean: m.
        scales: S, its rows first: S_p[i, j] at [i, p, j].
    """
    if torch.is_grad_enabled():
        return Marginals(*Conditional.apply(A, prior, mean, scales))
    M, P = mean.shape
    lengths, S = A.new_empty(len(A), P), scales.view(M, P * M)
    for part, length in zip(A.split(ROWS), lengths.split(ROWS), strict=True):  # C stays in the cache
        torch.linalg.vector_norm((part @ S).view(-1, P, M), dim=-1, out=length)
    return Marginals(A @ mean, lengths.square_().add_(unexplained(A, prior).unsqueeze(-1)))


def unexplained(A: Float[Tensor, "N M"], prior: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """k(x, x) − Σ A²: the prior variance that no q(v) can explain; never below zero."""
    return (prior - A.square().sum(-1)).clamp_min(0.0)


class Conditional(torch.autograd.Function):
    """(A, k, m, S) ↦ mean, var."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, prior: Tensor, mean: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
        M, P = mean.shape
        C = (A @ scales.view(M, P * M)).view(-1, P, M)
        remaining = unexplained(A, prior)
        ctx.save_for_backward(A, prior, mean, scales, C, remaining)
        return A @ mean, torch.linalg.vector_norm(C, dim=-1).square_().add_(remaining.unsqueeze(-1))

    @staticmethod
    def backward(ctx: Any, mean_grad: Tensor, variance_grad: Tensor) -> tuple[Tensor | None, ...]:
        A, prior, mean, scales, C, remaining = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiated(_plainly, (A, prior, mean, scales), (mean_grad, variance_grad))
        M, P = mean.shape
        C_grad = (C * (2 * variance_grad).unsqueeze(-1)).view(-1, P * M)
        prior_grad = variance_grad.sum(-1).mul_(remaining > 0)
        A_grad = C_grad @ scales.view(M, P * M).T
        A_grad.addmm_(mean_grad, mean.T).addcmul_(A, prior_grad.unsqueeze(-1), value=-2.0)
        return A_grad, prior_grad, A.T @ mean_grad, (A.T @ C_grad).view(M, P, M)


def _plainly(A: Tensor, prior: Tensor, mean: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """The same in operations that can be differentiated any number of times."""
    C = torch.einsum("ni,ipj->npj", A, scales)
    return A @ mean, unexplained(A, prior).unsqueeze(-1) + C.square().sum(-1)
