"""Gegenbauer polynomials, normalised and in the paper's own scale.

    P_n(t) = C_n^(α)(t) / C_n^(α)(1),   α = (d−2)/2,   P_n(1) = 1,   |P_n| ≤ 1 on [−1, 1]

    (n + d − 2) P_{n+1}(t) = (2n + d − 2) t P_n(t) − n P_{n−1}(t),   P_0 = 1,   P_1 = t

The recurrence is stable on [−1, 1] for every d ≥ 2. Monomial coefficients are not: in float32 they lose
every digit near level 20.
"""

from math import comb

import torch
from jaxtyping import Float
from torch import Tensor

from actgp import checks


def recurrence(level: int, dimension: int) -> tuple[float, float]:
    """(A_n, B_n) of P_{n+1} = A_n t P_n − B_n P_{n−1}."""
    if level == 0:
        return 1.0, 0.0  # P_1 = t, also for d = 2, where the formula reads 0/0
    n, d = level, dimension
    return (2 * n + d - 2) / (n + d - 2), n / (n + d - 2)


def normalised_gegenbauer(t: Float[Tensor, "*shape"], dimension: int, num_levels: int) -> Float[Tensor, "*shape L"]:
    """P_0(t), …, P_{Ñ−1}(t), stacked along a new last axis."""
    d = checks.integer(dimension, "dimension", minimum=2)
    num_levels = checks.integer(num_levels, "num_levels", minimum=1)
    checks.tensor(t, "t")
    P = [torch.ones_like(t), t]
    for n in range(1, num_levels - 1):
        A, B = recurrence(n, d)
        P.append(A * t * P[n] - B * P[n - 1])
    return torch.stack(P[:num_levels], dim=-1)


def gegenbauer(t: Float[Tensor, "*shape"], dimension: int, num_levels: int) -> Float[Tensor, "*shape L"]:
    """The paper's C_0^(α)(t), …, C_{Ñ−1}^(α)(t), with C_n^(α)(1) = binom(n+d−3, n)."""
    d = checks.integer(dimension, "dimension", minimum=2)
    if d == 2:
        raise ValueError(
            "dimension must be at least 3 for C_n^(α), got 2, where α = 0 and C_n^(0) vanishes for n ≥ 1; "
            "use normalised_gegenbauer, whose P_n are the Chebyshev polynomials there"
        )
    P = normalised_gegenbauer(t, d, num_levels)
    at_one = [comb(n + d - 3, n) for n in range(P.shape[-1])]
    if at_one[-1] > torch.finfo(t.dtype).max:
        raise ValueError(
            f"C_n^(α) must stay within {t.dtype}, got more than {torch.finfo(t.dtype).max:.0e} at level "
            f"{len(at_one) - 1} in dimension {d}; use normalised_gegenbauer, which is bounded by one"
        )
    return P * torch.tensor([float(value) for value in at_one], dtype=t.dtype, device=t.device)
