"""The linear algebra of a layer: a Cholesky decomposition that does not fail, and its inverse with its own gradient."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp.autocast import full_precision

# The same for models of both precisions: whitened parameters mean what they mean only together with their L. In low
# dimension more of it costs accuracy; less of it, digits, since L⁻¹ magnifies round-off by up to jitter^(−1/2).
RELATIVE_JITTER = 1e-10
SMALLEST = 1e-12
GROWTH = 10.0
LARGEST = 1e-2
BLOCK = 64  # columns that LAPACK decomposes at a time
FEW = 16  # columns


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
    scale = K.diagonal().sum().item() / len(K)
    if not 0.0 < scale < float("inf"):
        raise ValueError(
            f"a covariance matrix must have a finite, positive diagonal, got mean {scale}; "
            "look for NaN or infinite parameters of the kernel or the features"
        )
    while relative_jitter <= LARGEST:
        jitter = relative_jitter * scale
        L, info = torch.linalg.cholesky_ex(torch.add(K, _identity(len(K), K.dtype, K.device), alpha=jitter))
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
    C = _cholesky_beside_round_off((H + eye).flip(-2, -1), eye)  # J (I + H) J = C Cᵀ, where J reverses indices
    inverse = torch.linalg.solve_triangular(C, eye.expand_as(C), upper=False)
    return inverse.mT.flip(-2, -1)  # J C⁻ᵀ J: reversing makes a lower triangle of an upper


def _cholesky_beside_round_off(K: Float64[Tensor, "*batch M M"], eye: Float64[Tensor, "M M"]) -> Tensor:
    """C of a precision I + H, with jitter only where the round-off of a large singular H hides the I."""
    C, info = torch.linalg.cholesky_ex(K)
    if not info.any():
        return C
    largest, relative_jitter = K.diagonal(dim1=-2, dim2=-1).amax(-1)[..., None, None], SMALLEST
    while info.any() and relative_jitter <= LARGEST:
        C, info = torch.linalg.cholesky_ex(K + relative_jitter * largest * eye)
        relative_jitter *= GROWTH
    if info.any():
        raise ValueError(
            f"the information of the data must be finite and not negative, got a largest entry of "
            f"{K.abs().max().item():.3g}; look for NaN or infinite parameters, and standardise X and y"
        )
    return C


def block_posterior_scale(H: Float64[Tensor, "*batch M M"], blocks: tuple[int, ...]) -> Float64[Tensor, "*batch M M"]:
    """As `posterior_scale`, where nothing is to be correlated between blocks."""
    S, end = torch.zeros_like(H), 0
    for size in blocks:
        start, end = end, end + size
        S[..., start:end, start:end] = posterior_scale(H[..., start:end, start:end])
    return S


def inverse_cholesky(K: Float64[Tensor, "M M"]) -> Float64[Tensor, "M M"]:
    """R = L⁻¹, L Lᵀ = K + jitter · I: what whitens, once for all products with it."""
    return InverseCholesky.apply(K)


class InverseCholesky(torch.autograd.Function):
    """K ↦ R = L⁻¹."""

    @staticmethod
    def forward(ctx: Any, K: Tensor) -> Tensor:
        R = invert(stable_cholesky(K).L)
        ctx.save_for_backward(R)
        return R

    @staticmethod
    @full_precision
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (R,) = ctx.saved_tensors
        return -0.5 * inverse_cholesky_gradient(R, grad)


def inverse_choleskys(
    K: Float64[Tensor, "L M M"], factors: Float64[Tensor, " L"] | None = None
) -> Float64[Tensor, "L M M"]:
    """R = L⁻¹ of each matrix of a stack, times a factor for each; without gradients. Jitter is added to K in place."""
    factors = K.new_ones(len(K)) if factors is None else factors
    diagonals = K.diagonal(dim1=-2, dim2=-1)
    scales = diagonals.mean(-1, keepdim=True)
    diagonals.add_(scales, alpha=RELATIVE_JITTER)
    R, *infos = _inverse_factors(K)
    if any(any(info.tolist()) for info in infos):  # some need more
        diagonals.sub_(scales, alpha=RELATIVE_JITTER)
        R = torch.stack([invert(stable_cholesky(matrix).L) for matrix in K])
    return R.mul_(factors.view(-1, 1, 1))


def _inverse_factors(K: Float64[Tensor, "L M M"]) -> list[Tensor]:
    """R, and for each block what is not 0 where it has none.

    LAPACK is slow at more than 64 rows, so it is given as many at a time:

    K₁₁ = L₁ L₁ᵀ,   L₂₁ᵀ = L₁⁻¹ K₁₂,   R₂ of K₂₂ − L₂₁ L₂₁ᵀ,   R = [R₁, 0; −R₂ L₂₁ R₁, R₂]
    """
    if K.shape[-1] <= BLOCK:
        L, info = torch.linalg.cholesky_ex(K)
        return [invert(L), info]
    first, rest = slice(None, BLOCK), slice(BLOCK, None)
    L, info = torch.linalg.cholesky_ex(K[:, first, first])
    identity = _identity(BLOCK, K.dtype, K.device).expand_as(L)
    solved = torch.linalg.solve_triangular(L, torch.cat([K[:, first, rest], identity], dim=-1), upper=False)
    L_below, R_first = solved[..., :-BLOCK].mT, solved[..., -BLOCK:]
    R_rest, *infos = _inverse_factors(torch.baddbmm(K[:, rest, rest], L_below, L_below.mT, alpha=-1.0))
    R = torch.zeros_like(K)
    R[:, first, first], R[:, rest, rest] = R_first, R_rest
    R[:, rest, first].baddbmm_(R_rest, torch.bmm(L_below, R_first), alpha=-1.0)
    return [R, info, *infos]


def invert(L: Float64[Tensor, "*batch M M"]) -> Float64[Tensor, "*batch M M"]:
    """L⁻¹ of a lower triangle."""
    identity = _identity(L.shape[-1], L.dtype, L.device)
    return torch.linalg.solve_triangular(L, identity.expand_as(L), upper=False)


def inverse_cholesky_gradient(
    R: Float[Tensor, "*batch M M"], grad: Float[Tensor, "*batch M M"]
) -> Float[Tensor, "*batch M M"]:
    """−2 K̄ = Rᵀ sym(R̄ Rᵀ) R, where sym mirrors the lower triangle."""
    # L̄ = −tril(Rᵀ R̄ Rᵀ) and K̄ = ½ Rᵀ sym(Lᵀ L̄) R, where of Lᵀ L̄ only the lower triangle counts: −R̄ Rᵀ.
    return sandwich(R, grad @ R.mT)


def half_sandwich(R: Float[Tensor, "L M M"], B: Float[Tensor, "L M M"]) -> Float[Tensor, "L M M"]:
    """Rᵀ Φ(B) R, where Φ takes the lower triangle and half of the diagonal: with its transpose, Rᵀ sym(B) R."""
    return torch.bmm(torch.bmm(R.mT, B * _half_triangle(B.shape[-1], B.dtype, B.device)), R)


def sandwich(R: Float[Tensor, "*batch M M"], B: Float[Tensor, "*batch M M"]) -> Float[Tensor, "*batch M M"]:
    """Rᵀ sym(B) R, where sym mirrors the lower triangle."""
    mirrored = torch.where(lower_triangle(B.shape[-1], torch.bool, B.device), B, B.mT)
    return R.mT @ mirrored @ R


@lru_cache(maxsize=64)
def _identity(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.eye(size, dtype=dtype, device=device)


@lru_cache(maxsize=64)
def lower_triangle(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Ones on and below the diagonal. A product with them is several times faster than tril() of a batch."""
    return torch.ones(size, size, dtype=dtype, device=device).tril()


@lru_cache(maxsize=64)
def _half_triangle(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Ones below the diagonal, ½ on it."""
    return lower_triangle(size, dtype, device) - 0.5 * _identity(size, dtype, device)


def times_few(A: Float[Tensor, "*batch N M"], B: Float[Tensor, "*batch M P"]) -> Float[Tensor, "*batch N P"]:
    """A B. Where B has few columns, BLAS finds Bᵀ Aᵀ in a third of the time, and this is a view of it."""
    return (B.mT @ A.mT).mT if 1 < B.shape[-1] < FEW else A @ B
