"""Chebyshev polynomials, into which every zonal series can be turned without loss.

With t = cos θ the normalised Gegenbauer polynomials are averages of cosines,

    P_n(t) = Σ_{j≤n} w_j cos((n − 2j) θ) = Σ_k G_nk T_k(t),   w_j ∝ (α)_j (α)_{n−j} / (j! (n−j)!),   Σ_j w_j = 1,

so that G is non-negative with rows that sum to one: nothing cancels, in any dimension. What is gained is a recurrence
that is the same in every dimension, and, since T_2k(t) = T_k(2t² − 1), half the terms for functions that are even or
odd up to a line, as activations are.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from jaxtyping import Float, Float64
from torch import Tensor


@lru_cache(maxsize=256)
def connection(dimension: int, num_levels: int) -> Float64[Tensor, "L L"]:
    """G, which takes energies e_n to Chebyshev coefficients c_k = Σ_n e_n G_nk."""
    G = torch.zeros(num_levels, num_levels, dtype=torch.float64)
    for n in range(num_levels):
        for j, weight in enumerate(_cosine_weights(n, (dimension - 2) / 2)):
            G[n, abs(n - 2 * j)] += weight
    return G


def _cosine_weights(n: int, alpha: float) -> list[float]:
    """w_0, …, w_n, from the middle outwards, where the weights do not overflow."""
    if alpha == 0:  # P_n = T_n
        return [0.5 * ((j == 0) + (j == n)) for j in range(n + 1)]
    weights = [1.0] * (n + 1)
    for j in range(n // 2, 0, -1):  # w_{j−1} / w_j, and w_j = w_{n−j}
        weights[j - 1] = weights[n - j + 1] = weights[j] * j * (alpha + n - j) / ((alpha + j - 1) * (n - j + 1))
    total = sum(weights)
    return [weight / total for weight in weights]


@lru_cache(maxsize=256)
def differentiation(num_levels: int) -> Float64[Tensor, "L K"]:
    """D, from coefficients of f to those of f': T_n' = n U_{n−1} = 2n (T_{n−1} + T_{n−3} + …), T_0 counting half."""
    D = torch.zeros(num_levels, max(1, num_levels - 1), dtype=torch.float64)
    for n in range(num_levels):
        for k in range(n - 1, -1, -2):
            D[n, k] = n if k == 0 else 2 * n
    return D


def chebyshev_series(t: Float[Tensor, "*shape"], coefficients: Float[Tensor, "*batch L"]) -> Float[Tensor, "*out"]:
    """Σ_k c_k T_k(t) in plain operations: the even levels, and t times the odd ones, by series in 2t² − 1."""
    shape = torch.broadcast_shapes(t.shape, coefficients.shape[:-1])
    # A single series is summed with numbers, and only as far as they are not zero.
    levels: list[float | Tensor] = coefficients.tolist() if coefficients.ndim == 1 else list(coefficients.unbind(-1))
    even, odd = _trimmed(levels[0::2]), _trimmed(levels[1::2])
    u2 = (t * t).mul_(4.0).sub_(2.0) if max(len(even), len(odd)) > 1 else t  # 2u, u = 2t² − 1
    b, b_next = _clenshaw(u2, even, shape)
    result = b.addcmul_(u2, b_next, value=-0.5) if len(even) > 1 else b  # Σ c_k T_k(u) = b_0 − u b_1
    if odd:
        b, b_next = _clenshaw(u2, odd, shape)
        # T_{2k+1}(t) = t V_k(u), V_0 = 1, V_1 = 2u − 1: Σ c_k V_k(u) = b_0 − b_1
        result.addcmul_(t, b.sub_(b_next) if len(odd) > 1 else b)
    return result


def _clenshaw(u2: Tensor, coefficients: Sequence[float | Tensor], shape: torch.Size) -> tuple[Tensor, Tensor]:
    """(b_0, b_1) of b_k = c_k + 2u b_{k+1} − b_{k+2}.

    In place, two operations a term: with b_k = s_k β_k and signs s_k = −s_{k+2}, what is new is added to the older of
    the two kept, β_k = β_{k+2} + s_k c_k ± 2u β_{k+1}.
    """
    beta, older = (torch.zeros(shape, dtype=u2.dtype, device=u2.device) for _ in range(2))
    sign, sign_before = 1.0, -1.0
    for c in reversed(coefficients):
        sign, sign_before = -sign_before, sign
        older.add_(sign * c).addcmul_(u2, beta, value=sign * sign_before)
        beta, older = older, beta
    return beta.mul_(sign) if sign < 0 else beta, older.mul_(sign_before) if sign_before < 0 else older


def _trimmed(coefficients: Sequence[float | Tensor]) -> Sequence[float | Tensor]:
    while coefficients and isinstance(coefficients[-1], float) and coefficients[-1] == 0:
        coefficients = coefficients[:-1]
    return coefficients
