"""Closed-form energies of the rectified powers t₊^p (step, ReLU, squared ReLU), for every d ≥ 2.

With Rodrigues' formula, ν = (d−3)/2 and Pochhammer's (x)_n = x (x+1) ⋯ (x+n−1),

    ∫ s P_n w dt = (−1)^n / (2^n (ν+1)_n) · ∫_0^1 t^p dⁿ/dtⁿ (1−t²)^(n+ν) dt ,

and integrating by parts p times leaves Beta integrals for n ≤ p and a derivative at t = 0 for n > p, which
vanishes unless n − p is odd. For p = 1 this is the paper's appendix C.2.
"""

from functools import lru_cache

import mpmath

from actgp.sphere.counting import num_harmonics

DIGITS = 40


@lru_cache(maxsize=256)
def rectified_power_energies(power: int, dimension: int, num_levels: int) -> tuple[float, ...]:
    """a_0, …, a_{Ñ−1} of s(t) = t^p for t > 0, else 0."""
    with mpmath.workdps(DIGITS):
        d = mpmath.mpf(dimension)
        nu = (d - 3) / 2
        omega = mpmath.gammaprod([d / 2], [(d - 1) / 2]) / mpmath.sqrt(mpmath.pi)
        return tuple(
            float(
                num_harmonics(n, dimension)
                * omega
                * (-1) ** n
                / (mpmath.mpf(2) ** n * mpmath.rf(nu + 1, n))
                * _integral(power, n, nu)
            )
            for n in range(num_levels)
        )


def _integral(p: int, n: int, nu: mpmath.mpf) -> mpmath.mpf:
    """∫_0^1 t^p dⁿ/dtⁿ (1−t²)^(n+ν) dt."""
    if n <= p:
        # n integrations by parts: (−1)^n p!/(p−n)! ∫ t^(p−n) (1−t²)^(n+ν) dt, a Beta integral.
        falling = mpmath.ff(p, n)
        return (-1) ** n * falling * mpmath.beta(mpmath.mpf(p - n + 1) / 2, n + nu + 1) / 2
    if (n - p) % 2 == 0:
        return mpmath.mpf(0)
    # p + 1 integrations by parts: (−1)^(p+1) p! · d^(2k)/dt^(2k) (1−t²)^(n+ν) at t = 0, with 2k = n − p − 1.
    k = (n - p - 1) // 2
    return (-1) ** (p + 1) * mpmath.factorial(p) * mpmath.binomial(n + nu, k) * (-1) ** k * mpmath.factorial(2 * k)
