"""Sizes on the sphere S^(d−1): how many harmonics a level has, and the surface area."""

import math

from actgp import checks


def num_harmonics(level: int, dimension: int) -> int:
    """N_n = (2n+d−2)/(n+d−2) · binom(n+d−2, n), the dimension of the space of harmonics of a level.

    Args:
        level: The degree n ≥ 0.
        dimension: The dimension d ≥ 2 of the space that holds the sphere (inputs + bias).

    Returns:
        The exact count, an int of any size.

    Example:
        >>> import actgp
        >>> actgp.num_harmonics(level=2, dimension=3)
        5
    """
    n = checks.integer(level, "level", minimum=0)
    d = checks.integer(dimension, "dimension", minimum=2)
    if n == 0:
        return 1
    # Paper, eq. B.3, in the form that also holds for d = 2, where N_n = 2 for n ≥ 1.
    return (2 * n + d - 2) * math.comb(n + d - 2, n) // (n + d - 2)


def surface_area(dimension: int) -> float:
    """Ω_{d−1} = 2 π^(d/2) / Γ(d/2), the area of the unit sphere in R^d (paper, eq. B.2).

    Args:
        dimension: d ≥ 2, the dimension of the space that holds the sphere.

    Returns:
        The area.

    Example:
        >>> import actgp
        >>> round(actgp.surface_area(3), 4)  # 4 π
        12.5664
    """
    d = checks.integer(dimension, "dimension", minimum=2)
    return math.exp(math.log(2.0) + d / 2 * math.log(math.pi) - math.lgamma(d / 2))


def log_num_harmonics(level: int, dimension: int) -> float:
    """log N_n, where N_n itself may be too large for a float."""
    n, d = level, dimension
    if n == 0:
        return 0.0
    log_binomial = math.lgamma(n + d - 1) - math.lgamma(n + 1) - math.lgamma(d - 1)
    return math.log((2 * n + d - 2) / (n + d - 2)) + log_binomial
