"""The linear algebra of a layer: a Cholesky decomposition that does not fail, and its inverse with its own gradient."""

from functools import lru_cache
from math import inf, isnan
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp.autocast import full_precision

# The same for models of both precisions: whitened parameters mean what they mean only together with their L. In low
# dimension more of it costs accuracy; less of it, digits, since L⁻¹ magnifies round-off by up to jitter^(−1/2).
RELATIVE_JITTER = 1e-10
SMALLEST = 1e-12
GROWTH = 10.0
LARGEST = 1e-2
BLOCK = 64  # columns that LAPACK decomposes at a time
FEW = 16  # columns
LARGEST_MAGNIFICATION = 2e3  # A is then good to about 1e-4 of √k(x, x), with Kuf in float32


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


class InverseCholesky(torch.autograd.Function):
    """Blocks of K ↦ R = L⁻¹, of a matrix or a stack, and the precision that will do for what it is multiplied with.

    The blocks are K itself, or Kuu, Kvu and Kvv, which L whitens one after the other:

        R = [ R_u          0   ]        R_s of Kvv − A Aᵀ,   A = Kvu R_uᵀ
            [ −R_s A R_u  R_s  ]

    Backwards, where sym mirrors the lower triangle,

        L̄ = −tril(Rᵀ R̄ Rᵀ) and K̄ = ½ Rᵀ sym(Lᵀ L̄) R,   and so   K̄ = −½ Rᵀ sym(R̄ Rᵀ) R

    since of Lᵀ L̄ only the lower triangle counts. R̄ comes from layers in the precision that they are computed in,
    with an error that is magnified on the way: hardly a digit is gained by going on from it in a finer one.
    """

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *blocks: Tensor) -> tuple[Tensor, torch.dtype]:
        R = R_u = _inverse_factor(blocks[0])
        largest = _magnification(R_u, blocks[0])
        if len(blocks) > 1:
            _, Kvu, Kvv = blocks
            A = Kvu @ R_u.mT
            R_s = _inverse_factor(Kvv - A @ A.mT)
            largest = max(largest, _magnification(R_s, Kvv))
            below = torch.cat([-R_s @ (A @ R_u), R_s], dim=-1)
            R = torch.cat([nn.functional.pad(R_u, (0, R_s.shape[-1])), below], dim=-2)
        ctx.dtype, ctx.size = (dtype if largest <= LARGEST_MAGNIFICATION else torch.float64), R_u.shape[-1]
        ctx.save_for_backward(R)
        return R, ctx.dtype

    @staticmethod
    @full_precision
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        R, grad, M = ctx.saved_tensors[0].to(ctx.dtype), grad.to(ctx.dtype), ctx.size
        half = R.mT @ (grad @ R.mT * _half_triangle(R.shape[-1], R.dtype, R.device)) @ R
        K_grad = half + half.mT  # −2 K̄
        if R.shape[-1] == M:
            return None, K_grad.double().mul(-0.5)
        blocks = K_grad[..., :M, :M], K_grad[..., M:, :M], K_grad[..., M:, M:]
        return None, *(block.double().mul(weight) for block, weight in zip(blocks, (-0.5, -1.0, -0.5), strict=True))


def inverse_cholesky(K: Float64[Tensor, "*L M M"]) -> Float64[Tensor, "*L M M"]:
    """R = L⁻¹, L Lᵀ = K + jitter · I: what whitens, once for all products with it."""
    return InverseCholesky.apply(torch.float64, K)[0]


def _magnification(R: Float64[Tensor, "*L M M"], K: Float64[Tensor, "*L M M"]) -> float:
    """How much L⁻¹ magnifies the round-off of what it is multiplied with: ‖L⁻¹‖ √K_mm, the largest of a stack."""
    sd = K.diagonal(dim1=-2, dim2=-1).mean(-1).sqrt()
    largest = (torch.linalg.vector_norm(R, dim=(-2, -1)) * sd).max().item()
    return inf if isnan(largest) else largest


def _inverse_factor(K: Float64[Tensor, "*L M M"]) -> Float64[Tensor, "*L M M"]:
    """R = L⁻¹, L Lᵀ = K + jitter · I, of one matrix or of each of a stack."""
    jitter = K.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True).mul(RELATIVE_JITTER)
    R, *infos = _by_blocks(K + torch.diag_embed(jitter.expand(K.shape[:-1])))
    if not any(info.any() for info in infos):
        return R
    matrices = K.reshape(-1, *K.shape[-2:])  # some need more
    return torch.stack([invert(stable_cholesky(matrix).L) for matrix in matrices]).view(K.shape)


def _by_blocks(K: Float64[Tensor, "*L M M"]) -> list[Tensor]:
    """R, and for each block what is not 0 where it has none.

    LAPACK is slow at more than 64 rows, so it is given as many at a time:

    K₁₁ = L₁ L₁ᵀ,   L₂₁ᵀ = L₁⁻¹ K₁₂,   R₂ of K₂₂ − L₂₁ L₂₁ᵀ,   R = [R₁, 0; −R₂ L₂₁ R₁, R₂]
    """
    if K.shape[-1] <= BLOCK:
        L, info = torch.linalg.cholesky_ex(K)
        return [invert(L), info]
    first, rest = slice(None, BLOCK), slice(BLOCK, None)
    L, info = torch.linalg.cholesky_ex(K[..., first, first])
    identity = _identity(BLOCK, K.dtype, K.device).expand_as(L)
    solved = torch.linalg.solve_triangular(L, torch.cat([K[..., first, rest], identity], dim=-1), upper=False)
    L_below, R_first = solved[..., :-BLOCK].mT, solved[..., -BLOCK:]
    R_rest, *infos = _by_blocks(K[..., rest, rest] - L_below @ L_below.mT)
    R = torch.zeros_like(K)
    R[..., first, first], R[..., rest, rest] = R_first, R_rest
    R[..., rest, first] = -R_rest @ (L_below @ R_first)
    return [R, info, *infos]


def invert(L: Float64[Tensor, "*batch M M"]) -> Float64[Tensor, "*batch M M"]:
    """L⁻¹ of a lower triangle."""
    identity = _identity(L.shape[-1], L.dtype, L.device)
    return torch.linalg.solve_triangular(L, identity.expand_as(L), upper=False)


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
