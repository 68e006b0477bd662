"""The linear algebra of a layer: a Cholesky decomposition that does not fail, and products with their own gradients."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

# The same for models of both precisions: whitened parameters mean what they mean only together with their L. In low
# dimension more of it costs accuracy; less of it, digits, since L⁻¹ magnifies round-off by up to jitter^(−1/2).
RELATIVE_JITTER = 1e-10
SMALLEST = 1e-12
GROWTH = 10.0
LARGEST = 1e-2


class Cholesky(NamedTuple):
    """K + jitter · I = L Lᵀ."""

    L: Float64[Tensor, "M M"]
    jitter: float


def stable_cholesky(K: Float64[Tensor, "M M"], relative_jitter: float = RELATIVE_JITTER) -> Cholesky:
    """Decomposes a covariance matrix.

    Args:
        K: The matrix, in float64 whatever the precision of the model around it.
        relative_jitter: What is added to the diagonal at first, relative to its mean; it grows tenfold until the
            decomposition succeeds.
    """
    scale = K.diagonal().mean().item()
    if not 0.0 < scale < float("inf"):
        raise ValueError(
            f"a covariance matrix must have a finite, positive diagonal, got mean {scale}; "
            "look for NaN or infinite parameters of the kernel or the features"
        )
    while relative_jitter <= LARGEST:
        jitter = relative_jitter * scale
        L, info = torch.linalg.cholesky_ex(K + jitter * torch.eye(len(K), dtype=K.dtype, device=K.device))
        if int(info) == 0:
            return Cholesky(L, jitter)
        relative_jitter = max(SMALLEST, relative_jitter * GROWTH)
    raise ValueError(
        "a covariance matrix must be positive semi-definite, got one that is not, even with jitter of 1 % of its "
        "diagonal; look for non-finite off-diagonal entries"
    )


def posterior_scale(H: Float64[Tensor, "*batch M M"]) -> Float64[Tensor, "*batch M M"]:
    """S, lower triangular with S Sᵀ = (I + H)⁻¹: the covariance of N(0, I) after data with the information H ≥ 0."""
    eye = torch.eye(H.shape[-1], dtype=H.dtype, device=H.device)
    C = torch.linalg.cholesky((H + eye).flip(-2, -1))  # J (I + H) J = C Cᵀ, where J reverses indices
    inverse = torch.linalg.solve_triangular(C, eye.expand_as(C), upper=False)
    return inverse.mT.flip(-2, -1)  # J C⁻ᵀ J: reversing makes a lower triangle of an upper


def inverse_cholesky(K: Float64[Tensor, "M M"]) -> Float64[Tensor, "M M"]:
    """R = L⁻¹, L Lᵀ = K + jitter · I: what whitens, once for all products with it."""
    return InverseCholesky.apply(K)


class InverseCholesky(torch.autograd.Function):
    """K ↦ R = L⁻¹, and K̄ = −½ Rᵀ sym(R̄ Rᵀ) R, where sym mirrors the lower triangle."""

    @staticmethod
    def forward(K: Tensor) -> Tensor:
        L = stable_cholesky(K).L
        return torch.linalg.solve_triangular(L, torch.eye(len(L), dtype=L.dtype, device=L.device), upper=False)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (R,) = ctx.saved_tensors
        # L̄ = −tril(Rᵀ R̄ Rᵀ) and K̄ = ½ Rᵀ sym(Lᵀ L̄) R, where of Lᵀ L̄ only the lower triangle counts: −R̄ Rᵀ.
        lower = (grad @ R.mT).tril()
        mirrored = lower + lower.tril(-1).mT
        return -0.5 * R.mT @ mirrored @ R


def sums_of_squares(matrices: Float[Tensor, "P M K"], A: Float[Tensor, "K N"]) -> Float[Tensor, "P N"]:
    """‖B_p a_i‖² for each matrix B_p and each column a_i, by one product for all of them."""
    sums, _ = SumsOfSquares.apply(matrices, A)
    return sums


class SumsOfSquares(torch.autograd.Function):
    """(B, A) ↦ Q_pi = ‖C_pi‖², C_pi = B_p a_i, with C̄ = 2 C ∘ Q̄, B̄_p = C̄_p Aᵀ, Ā = Σ_p B_pᵀ C̄_p.

    C is a second output so that the backward pass, which needs it, can be differentiated too.
    """

    @staticmethod
    def forward(matrices: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
        P, M, K = matrices.shape
        products = (matrices.reshape(P * M, K) @ A).reshape(P, M, -1)  # [P, M, N]
        return torch.linalg.vector_norm(products, dim=1).square(), products

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs, output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_products: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        matrices, A, products = ctx.saved_tensors
        P, M, K = matrices.shape
        parts = [] if grad is None else [products * (2 * grad).unsqueeze(1)]
        parts += [] if grad_products is None else [grad_products]
        if not parts:
            return None, None
        C = sum(parts[1:], start=parts[0]).reshape(P * M, -1)  # C̄: [P M, N]
        return (C @ A.mT).reshape(P, M, K), matrices.reshape(P * M, K).mT @ C
