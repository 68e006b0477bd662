"""Chebyshev polynomials, into which every zonal series can be turned without loss.

With t = cos θ the normalised Gegenbauer polynomials are averages of cosines,

    P_n(t) = Σ_{j≤n} w_j cos((n − 2j) θ) = Σ_k G_nk T_k(t),   w_j ∝ (α)_j (α)_{n−j} / (j! (n−j)!),   Σ_j w_j = 1,

so that G is non-negative with rows that sum to one. Nothing cancels in the conversion of energies of one sign. Energies
of both signs may: `polynomial` looks whether they do.
"""

from functools import lru_cache

import torch
from jaxtyping import Float64
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
