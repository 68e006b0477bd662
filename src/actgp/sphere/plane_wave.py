"""Plane waves on the sphere, as sums of zonal functions: the Jacobi–Anger expansion in any dimension.

    cos(s t + b) = Σ_n N_n j_n(s) cos(b + nπ/2) P_n(t),      j_n(s) = Γ(d/2) (2/s)^α J_{n+α}(s),      α = (d−2)/2

The recurrence of Bessel functions, j_{n−1} = 2(n+α)/s · j_n − j_{n+1}, is stable downwards. It starts far above the
last level that counts, at any value, and is normalised by Σ_n N_n j_n² = 1, the mean square of exp(i s t) on the sphere
(Miller's algorithm). With y_n = √N_n j_n, which are at most one, nothing overflows.
"""

import importlib
from math import ceil, lgamma, log

import numpy as np
from numpy.typing import NDArray

from actgp.sphere.counting import log_num_harmonics

FEWEST_STEPS = 100
RESCALED = 1e100
SMALLEST_WAVE_NUMBER = 1e-8  # below it a wave is a constant


def wave_coefficients(wave_numbers: NDArray[np.float64], dimension: int, num_levels: int) -> NDArray[np.float64]:
    """y_n = √N_n j_n(s) for each s > 0, [F, Ñ]; their squares over all n sum to one."""
    s = np.maximum(wave_numbers, SMALLEST_WAVE_NUMBER)
    y = np.empty((len(s), num_levels))
    # Where s is beyond n + α, J oscillates: it does not underflow, and SciPy's is accurate.
    few = s <= max(FEWEST_STEPS, 2 * num_levels + dimension - 2)
    if few.any():
        y[few] = _miller(s[few], dimension, num_levels)
    if not few.all():
        y[~few] = _directly(s[~few], dimension, num_levels)
    return y


def _miller(s: NDArray[np.float64], d: int, num_levels: int) -> NDArray[np.float64]:
    alpha, largest = (d - 2) / 2, float(s.max())
    # y_n falls off beyond n = s, and beyond n = s²/d, where exp(i s t) is a Hermite series in √d t.
    beyond = min(largest + 10 * largest ** (1 / 3) + 40, largest**2 / d + 12 * largest / d**0.5 + 60)
    start = max(num_levels + 20, ceil(beyond))
    logs = [log_num_harmonics(n, d) for n in range(start + 2)]
    ratios = np.exp(0.5 * np.subtract(logs[:-1], logs[1:]))  # √(N_n / N_{n+1})
    found = np.zeros((num_levels, len(s)))
    above, y, total = np.zeros_like(s), np.full_like(s, 1 / RESCALED), np.zeros_like(s)
    for n in range(start, -1, -1):
        total += y * y
        if n < num_levels:
            found[n] = y
        if n == 0:
            break
        # √N_{n−1} (2(n+α)/s · j_n − j_{n+1})
        above, y = y, ratios[n - 1] * (2 * (n + alpha) / s * y - ratios[n] * above)
        large = np.abs(y) > RESCALED
        if large.any():
            factor = np.where(large, 1 / RESCALED, 1.0)
            above, y, total, found = above * factor, y * factor, total * factor**2, found * factor
    return (found / np.sqrt(total)).T


def _directly(s: NDArray[np.float64], d: int, num_levels: int) -> NDArray[np.float64]:
    jv = importlib.import_module("scipy.special").jv  # only now: importing it takes a tenth of importing torch
    alpha = (d - 2) / 2
    scale = lgamma(d / 2) + alpha * (log(2) - np.log(s))
    levels = [np.exp(scale + 0.5 * log_num_harmonics(n, d)) * jv(n + alpha, s) for n in range(num_levels)]
    return np.stack(levels, axis=1)
