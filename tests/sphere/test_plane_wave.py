"""Plane waves on the sphere, against Bessel functions to 40 digits."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actgp.sphere import num_harmonics
from actgp.sphere.counting import log_num_harmonics
from actgp.sphere.plane_wave import wave_coefficients


@given(
    dimension=st.integers(2, 2001),
    level=st.integers(0, 63),
    wave_number=st.floats(1e-3, 1e5),
    others=st.lists(st.floats(1e-3, 3e3), max_size=3),
)
def test_coefficients_are_bessel_functions(dimension: int, level: int, wave_number: float, others: list[float]) -> None:
    found = wave_coefficients(np.array([wave_number, *others]), dimension, level + 1)[0, level]
    with mpmath.workdps(40):
        alpha = mpmath.mpf(dimension - 2) / 2
        j = (
            mpmath.gamma(alpha + 1)
            * (2 / mpmath.mpf(wave_number)) ** alpha
            * mpmath.besselj(level + alpha, wave_number)
        )
        expected = float(mpmath.sqrt(num_harmonics(level, dimension)) * j)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-11)


@given(dimension=st.integers(2, 2001), level=st.integers(0, 64))
def test_logarithms_of_counts(dimension: int, level: int) -> None:
    expected = float(mpmath.log(num_harmonics(level, dimension)))
    assert log_num_harmonics(level, dimension) == pytest.approx(expected, rel=1e-12, abs=1e-11)
