"""Gegenbauer polynomials, normalised and in the paper's own scale, and sums of them.

    P_n(t) = C_n^(α)(t) / C_n^(α)(1),   α = (d−2)/2,   P_n(1) = 1,   |P_n| ≤ 1 on [−1, 1]

    (n + d − 2) P_{n+1}(t) = (2n + d − 2) t P_n(t) − n P_{n−1}(t),   P_0 = 1,   P_1 = t

    P_n'(t) = n (n + d − 2) / (d − 1) · P_{n−1}(t) of dimension d + 2

The recurrence is stable on [−1, 1] for every d ≥ 2. Other bases are not: monomials lose every digit near level 20 in
float32, and in Chebyshev polynomials the energies of a kinked function such as ReLU, which are large and of both signs
in many dimensions, cancel at the t that random directions have, |t| ≈ d^(−1/2), where the P_n are small.
"""

from collections.abc import Sequence
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


def slope(level: int, dimension: int) -> float:
    """P_n'(1) = n (n+d−2) / (d−1), the factor of P_{n−1} of dimension d + 2 in P_n'."""
    return level * (level + dimension - 2) / (dimension - 1)


def clenshaw(
    t: Float[Tensor, "*shape"], energies: Sequence[float | Tensor], dimension: int, shape: torch.Size | None = None
) -> Float[Tensor, "*out"]:
    """Σ_n e_n P_n(t) by Clenshaw's recurrence b_n = e_n + A_n t b_{n+1} − B_{n+1} b_{n+2}, whose b_0 is the sum.

    Args:
        t: Points.
        energies: e_n: numbers, or tensors of a batch of series.
        dimension: d.
        shape: Of the result; that of t by default.
    """
    b, older = (torch.zeros(t.shape if shape is None else shape, dtype=t.dtype, device=t.device) for _ in range(2))
    b.add_(energies[-1])
    for n in range(len(energies) - 2, -1, -1):
        (A, _), (_, B), e = recurrence(n, dimension), recurrence(n + 1, dimension), energies[n]
        older.mul_(-B).addcmul_(t, b, value=A)  # in place of b_{n+2}
        if isinstance(e, Tensor) or e != 0:
            older.add_(e)
        b, older = older, b
    return b


def normalised_gegenbauer(t: Float[Tensor, "*shape"], dimension: int, num_levels: int) -> Float[Tensor, "*shape L"]:
    """P_0(t), …, P_{Ñ−1}(t), stacked along a new last axis.

    Args:
        t: Points in [−1, 1], of any shape.
        dimension: d ≥ 2, the dimension of the space that holds the sphere.
        num_levels: Ñ, how many polynomials.

    Returns:
        The polynomials' values, with a new last axis for the levels.

    Example:
        >>> import actgp, torch
        >>> actgp.normalised_gegenbauer(torch.tensor([1.0]), dimension=5, num_levels=3)
        tensor([[1., 1., 1.]])
    """
    d = checks.integer(dimension, "dimension", minimum=2)
    num_levels = checks.integer(num_levels, "num_levels", minimum=1)
    checks.tensor(t, "t")
    P = [torch.ones_like(t), t]
    for n in range(1, num_levels - 1):
        A, B = recurrence(n, d)
        P.append(A * t * P[n] - B * P[n - 1])
    return torch.stack(P[:num_levels], dim=-1)


def gegenbauer(t: Float[Tensor, "*shape"], dimension: int, num_levels: int) -> Float[Tensor, "*shape L"]:
    """The paper's C_0^(α)(t), …, C_{Ñ−1}^(α)(t), with C_n^(α)(1) = binom(n+d−3, n).

    Args:
        t: Points in [−1, 1], of any shape.
        dimension: d ≥ 2, the dimension of the space that holds the sphere.
        num_levels: Ñ, how many polynomials.

    Returns:
        The polynomials' values, with a new last axis for the levels.

    Example:
        >>> import actgp, torch
        >>> actgp.gegenbauer(torch.tensor([0.5]), dimension=5, num_levels=3)
        tensor([[1.0000, 1.5000, 0.3750]])
    """
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
