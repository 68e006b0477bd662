"""Energies of any shape function by Funk–Hecke, to relative accuracy, in any dimension.

    a_n = N_n ω_d ∫_{−1}^{1} s(t) P_n(t) (1−t²)^((d−3)/2) dt,      ω_d = Γ(d/2) / (Γ((d−1)/2) √π)

The integral is tiny where N_n is huge (N_63 ≈ 1e141 at d = 4096), so double precision cannot hold it.
We work in fixed point, on Python's integers, with as many bits as N_n and the answer call for:

* t = sin δ folds [−1, 1] onto δ ∈ [0, π/2]; even levels see s(t) + s(−t), odd levels s(t) − s(−t), which
  also splits the integral at t = 0, where activations have their kink;
* δ = (π/2) / (1 + exp(π sinh u)) is the tanh–sinh rule: the trapezoidal sum in u converges doubly
  exponentially, endpoint singularities (the √(1−t) of a Matérn kernel) included;
* halving the step squares the error, so two sums that agree to 1e-7 are right far beyond 1e-10;
* a level that drowns in the round-off of its sum is summed again with more bits, until it is resolved or
  known to be below 1e-100 of the function, which is zero.
"""

from collections.abc import Callable
from functools import lru_cache
from math import asinh, ceil, log, pi
from typing import NamedTuple

import mpmath
import numpy as np
from mpmath.libmp import to_fixed
from numpy.typing import NDArray

from actgp.sphere.counting import num_harmonics

Exact = Callable[[mpmath.mpf], mpmath.mpf]
Integers = NDArray[np.object_]  # Python integers, x · 2^bits

FIRST_STEP = 1 / 16
MAX_REFINEMENTS = 8
AGREEMENT_BITS = 24  # two successive sums agree to 2^−24 ≈ 6e-8
RESOLUTION_BITS = 40  # a level is resolved when it stands 2^40 ≈ 1e12 above its round-off
SMALL_LEVEL_BITS = 64  # levels down to 1e-19 of the function are resolved at the first try
ROUNDOFF_BITS = 24  # what sums over thousands of nodes and levels may lose
MORE_BITS = (0, 128, 384)  # tries; what even the last does not resolve is below 1e-100 of s, and zero
FLOAT_BITS = 48  # what can be trusted of a float64 function value


class QuadratureError(ArithmeticError):
    """A shape function is too rough for its spectrum to be computed."""


class _Nodes(NamedTuple):
    """The nodes that one refinement adds."""

    t: list[mpmath.mpf]  # sin δ, for s(t)
    sine: Integers
    cosine: Integers
    weight: Integers  # |dδ/du|, without the step


class _Sums(NamedTuple):
    """Per level: Σ s P_n w, and the same with absolute values, which scales its round-off."""

    value: Integers
    magnitude: Integers


@lru_cache(maxsize=1024)
def energies(exact: Exact, dimension: int, num_levels: int) -> tuple[float, ...]:
    """The energies a_0, …, a_{Ñ−1}, each to relative accuracy 1e-10 or exactly zero; computed once.

    Args:
        exact: The shape function s(t) of an mpmath number, right to mpmath's working precision. Hashable, and equal to
            another only if it is the same function.
        dimension: d ≥ 2.
        num_levels: Ñ ≥ 1.
    """
    threshold = 1 << (ROUNDOFF_BITS + RESOLUTION_BITS)
    bits = _enough_bits(num_harmonics(num_levels - 1, dimension))
    for more in MORE_BITS:
        sums = _converged(exact, dimension, num_levels, bits + more, value_bits=bits + more)
        if all((sums.magnitude == 0) | (abs(sums.value) >= threshold)):
            break
    return _scaled(sums.value, [threshold] * num_levels, dimension, bits + more)


@lru_cache(maxsize=256)
def energies_from_floats(function: Callable[[float], float], dimension: int, num_levels: int) -> tuple[float, ...]:
    """As `energies`, for a function that is only known in double precision.

    A level that does not stand above the noise which double precision leaves in it is set to zero.
    """

    def exact(t: mpmath.mpf) -> mpmath.mpf:
        return mpmath.mpf(function(float(t)))

    bits = _enough_bits(num_harmonics(num_levels - 1, dimension))
    sums = _converged(exact, dimension, num_levels, bits, value_bits=FLOAT_BITS)
    return _scaled(sums.value, [magnitude >> (FLOAT_BITS - 4) for magnitude in sums.magnitude], dimension, bits)


def _enough_bits(count: int) -> int:
    """Precision for a level of `count` harmonics, rounded up so that node tables are shared."""
    needed = count.bit_length() + SMALL_LEVEL_BITS + RESOLUTION_BITS + ROUNDOFF_BITS
    return 64 * ceil(needed / 64)


def _converged(exact: Exact, dimension: int, num_levels: int, bits: int, value_bits: int) -> _Sums:
    """Halves the step until two sums agree at every level."""
    zeros = np.array([0] * num_levels, dtype=object)
    sums = _Sums(zeros, zeros)
    for refinement in range(MAX_REFINEMENTS + 1):
        added = _sums(exact, dimension, num_levels, bits, refinement, value_bits)
        previous, sums = sums, _Sums(sums.value // 2 + added.value, sums.magnitude // 2 + added.magnitude)
        noise = (sums.magnitude >> value_bits) + (1 << ROUNDOFF_BITS)
        tolerance = np.maximum(noise, abs(sums.value) >> AGREEMENT_BITS)
        if refinement > 0 and (abs(sums.value - previous.value) <= tolerance).all():
            return sums
    raise QuadratureError(
        f"the spectrum did not converge in dimension {dimension}: expected a shape function that is smooth on "
        "(−1, 0) and on (0, 1), got one that is not; smooth it, or give its energies directly"
    )


def _sums(exact: Exact, dimension: int, num_levels: int, bits: int, refinement: int, value_bits: int) -> _Sums:
    """The sums over the nodes that one refinement adds, times the step."""
    nodes = _nodes(bits, refinement)
    weight = (nodes.weight * _power(nodes.cosine, dimension - 2, bits)) >> bits  # |dδ/du| cos^(d−2) δ
    kept = np.flatnonzero(weight)
    t, weight = nodes.sine[kept], weight[kept]
    with mpmath.workprec(bits + 16):
        plus = _fixed([exact(nodes.t[i]) for i in kept], bits)
        minus = _fixed([exact(-nodes.t[i]) for i in kept], bits)
        ends = _fixed([exact(mpmath.mpf(1)), exact(mpmath.mpf(-1))], bits)
    largest = max(int(abs(values).max(initial=0)) for values in (plus, minus, ends))
    small = (1 + (largest >> value_bits)) << 8
    even, odd = _chop(plus + minus, small), _chop(plus - minus, small)
    # 1 and t are orthogonal to the levels above them. Taken out exactly, they leave no round-off there: the odd
    # part of softplus is linear, and its odd levels n ≥ 3 come out as the zeros they are.
    even_rest = _chop(even - ends.sum(), small)
    odd_rest = _chop(odd - ((ends[0] - ends[1]) * t >> bits), small)

    steps = round(1 / FIRST_STEP) * 2**refinement
    values, magnitudes = [], []
    previous, P = 0 * t, 0 * t + (1 << bits)
    for n in range(num_levels):
        part = (even, odd)[n] if n < 2 else (even_rest, odd_rest)[n % 2]
        terms = (((part * weight) >> bits) * P) >> bits
        values.append(int(terms.sum()) // steps)
        magnitudes.append(int(abs(terms).sum()) // steps)
        # The recurrence of P_n, in integers.
        A, B, C = (2 * n + dimension - 2, n, n + dimension - 2) if n > 0 else (1, 0, 1)
        previous, P = P, (A * ((t * P) >> bits) - B * previous) // C
    return _Sums(np.array(values, dtype=object), np.array(magnitudes, dtype=object))


@lru_cache(maxsize=64)
def _nodes(bits: int, refinement: int) -> _Nodes:
    """Nodes at odd multiples of the step h (all multiples at first): δ = (π/2) / (1 + e^(π sinh u))."""
    h = FIRST_STEP / 2**refinement
    last = ceil(asinh(bits * log(2) / pi) / h)
    t, cosine, weight = [], [], []
    with mpmath.workprec(bits + 16):
        half_pi = mpmath.pi / 2
        for k in range(-last, last + 1):
            if refinement > 0 and k % 2 == 0:
                continue
            e_u = mpmath.exp(mpmath.mpf(k) * h)
            E = mpmath.exp(half_pi * (e_u - 1 / e_u))  # e^(π sinh u)
            c, s = mpmath.mp.cos_sin(half_pi / (1 + E))
            t.append(s)
            cosine.append(c)
            weight.append(half_pi**2 * (e_u + 1 / e_u) * E / (1 + E) ** 2)  # |dδ/du| = (π/2) π cosh u E/(1+E)²
    return _Nodes(t, _fixed(t, bits), _fixed(cosine, bits), _fixed(weight, bits))


def _scaled(integrals: Integers, noise: list[int], dimension: int, bits: int) -> tuple[float, ...]:
    """a_n = N_n ω_d · integral, as floats; what does not exceed its noise is zero."""
    with mpmath.workprec(bits + 16):
        d = mpmath.mpf(dimension)
        omega = mpmath.gammaprod([d / 2], [(d - 1) / 2]) / mpmath.sqrt(mpmath.pi)
        return tuple(
            float(omega * num_harmonics(n, dimension) * mpmath.ldexp(mpmath.mpf(integral), -bits))
            if abs(integral) > floor
            else 0.0
            for n, (integral, floor) in enumerate(zip(integrals, noise, strict=True))
        )


def _fixed(values: list[mpmath.mpf], bits: int) -> Integers:
    with mpmath.workprec(bits + 16):  # mpf() rounds to the working precision
        return np.array([to_fixed(mpmath.mpf(v)._mpf_, bits) for v in values], dtype=object)


def _chop(values: Integers, small: int) -> Integers:
    """Zero where the whole part is nothing but round-off."""
    return 0 * values if (abs(values) <= small).all() else values


def _power(base: Integers, exponent: int, bits: int) -> Integers:
    """base^exponent in fixed point, by squaring."""
    result = 0 * base + (1 << bits)
    while exponent:
        if exponent & 1:
            result = (result * base) >> bits
        base, exponent = (base * base) >> bits, exponent >> 1
    return result
