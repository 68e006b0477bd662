"""The linear algebra of a layer: a Cholesky decomposition that does not fail, and its inverse with its own gradient."""

from functools import lru_cache
from math import inf, log, pi
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
FEW = 16  # columns
LARGEST_MAGNIFICATION = 2e3  # A is then good to about 1e-4 of √k(x, x), with Kuf in float32


class Cholesky(NamedTuple):
    """K + jitter · I = L Lᵀ."""

    L: Float64[Tensor, "*L M M"]
    jitter: Float64[Tensor, "*L"]


def stable_cholesky(K: Float64[Tensor, "*L M M"], relative_jitter: float = RELATIVE_JITTER) -> Cholesky:
    """Decomposes a covariance matrix, or each of a stack.

    Args:
        K: The matrix, in float64 whatever the precision of the model around it.
        relative_jitter: What is added to the diagonal at first, relative to its mean; it grows tenfold until the
            decomposition succeeds.
    """
    scale = K.detach().diagonal(dim1=-2, dim2=-1).mean(-1)
    if not (scale.min().item() > 0.0 and scale.max().item() < inf):
        raise ValueError(
            f"a covariance matrix must have a finite, positive diagonal, got mean {scale.tolist()}; "
            "look for NaN or infinite parameters of the kernel or the features"
        )
    relative = torch.full_like(scale, relative_jitter)
    while relative.max() <= LARGEST:
        jitter = relative * scale
        L, info = torch.linalg.cholesky_ex(K + torch.diag_embed(jitter.unsqueeze(-1).expand(K.shape[:-1])))
        if not info.any():
            return Cholesky(L, jitter)
        relative = torch.where(info > 0, (relative * GROWTH).clamp_min(SMALLEST), relative)
    raise ValueError(
        "a covariance matrix must be positive semi-definite, got one that is not, even with jitter of 1 % of its "
        "diagonal; look for non-finite off-diagonal entries"
    )


def posterior_scale(H: Float64[Tensor, "*batch M M"]) -> Float64[Tensor, "*batch M M"]:
    """S, lower triangular with S Sᵀ = (I + H)⁻¹: the covariance of N(0, I) after data with the information H ≥ 0.

    There is jitter only where the round-off of a large singular H hides the I.
    """
    precision = H + torch.eye(H.shape[-1], dtype=H.dtype, device=H.device)
    try:
        C = stable_cholesky(precision.flip(-2, -1), relative_jitter=0.0).L  # J (I + H) J = C Cᵀ, J reverses indices
    except ValueError as error:
        raise ValueError(
            f"the information of the data must be finite and not negative, got a largest entry of "
            f"{H.abs().max().item():.3g}; look for NaN or infinite parameters, and standardise X and y"
        ) from error
    return invert(C).mT.flip(-2, -1)  # J C⁻ᵀ J: reversing makes a lower triangle of an upper


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
        R = R_u = invert(stable_cholesky(blocks[0]).L)
        largest = _magnification(R_u, blocks[0])
        if len(blocks) > 1:
            _, Kvu, Kvv = blocks
            A = Kvu @ R_u.mT
            R_s = invert(stable_cholesky(Kvv - A @ A.mT).L)
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


def _magnification(R: Float64[Tensor, "*L M M"], K: Float64[Tensor, "*L M M"]) -> float:
    """How much L⁻¹ magnifies the round-off of what it is multiplied with: ‖L⁻¹‖ √K_mm, the largest of a stack."""
    sd = K.diagonal(dim1=-2, dim2=-1).mean(-1).sqrt()
    return (torch.linalg.vector_norm(R, dim=(-2, -1)) * sd).max().item()


def invert(L: Float64[Tensor, "*batch M M"]) -> Float64[Tensor, "*batch M M"]:
    """L⁻¹ of a lower triangle."""
    identity = _identity(L.shape[-1], L.dtype, L.device)
    return torch.linalg.solve_triangular(L, identity.expand_as(L), upper=False)


@lru_cache(maxsize=64)
def _identity(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.eye(size, dtype=dtype, device=device)


@lru_cache(maxsize=64)
def lower_triangle(size: int, dtype: torch.dtype, device: torch.device, diagonal: int = 0) -> Tensor:
    """Ones on and below a diagonal. A product with them is several times faster than tril() of a batch."""
    return torch.ones(size, size, dtype=dtype, device=device).tril(diagonal)


@lru_cache(maxsize=64)
def _half_triangle(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Ones below the diagonal, ½ on it."""
    return lower_triangle(size, dtype, device) - 0.5 * _identity(size, dtype, device)


def times_few(A: Float[Tensor, "*batch N M"], B: Float[Tensor, "*batch M P"]) -> Float[Tensor, "*batch N P"]:
    """A B. Where B has few columns, BLAS finds Bᵀ Aᵀ in a third of the time, and this is a view of it."""
    return (B.mT @ A.mT).mT if 1 < B.shape[-1] < FEW else A @ B


class LogDensity(torch.autograd.Function):
    """(r, K) ↦ Σ_p log N(r_p; 0, K) = −½ Σ_p r_pᵀ α_p − P Σ log diag L − ½ N P log 2π,   L Lᵀ = K, α = K⁻¹ r.

    Its slopes are −α and ½ (α αᵀ − P K⁻¹): a third of the time that differentiating the decomposition takes.
    """

    @staticmethod
    def forward(ctx: Any, r: Float64[Tensor, "*b N P"], K: Float64[Tensor, "*b N N"]) -> Float64[Tensor, "*b"]:
        L = stable_cholesky(K, relative_jitter=0.0).L
        inverse = torch.cholesky_inverse(L)
        alpha = inverse @ r
        ctx.save_for_backward(alpha, inverse)
        N, P = r.shape[-2:]
        volume = 2 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1) + N * log(2 * pi)
        return -0.5 * ((r * alpha).sum((-2, -1)) + P * volume)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor]:
        alpha, inverse = ctx.saved_tensors
        gradient = gradients[0][..., None, None]
        return -gradient * alpha, 0.5 * gradient * (alpha @ alpha.mT - alpha.shape[-1] * inverse)
