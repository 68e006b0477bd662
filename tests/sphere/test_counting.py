import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import actgp


@given(level=st.integers(0, 30), dimension=st.integers(2, 40))
def test_harmonics_are_homogeneous_polynomials_less_those_of_two_degrees_below(level: int, dimension: int) -> None:
    # Harmonic polynomials are the kernel of the Laplacian, which maps degree n onto degree n − 2.
    def homogeneous(n: int) -> int:
        return math.comb(n + dimension - 1, n) if n >= 0 else 0

    assert actgp.num_harmonics(level, dimension) == homogeneous(level) - homogeneous(level - 2)


def test_counts_stay_exact_beyond_floating_point() -> None:
    assert actgp.num_harmonics(63, 4096) > 2**400
    assert isinstance(actgp.num_harmonics(63, 4096), int)


@pytest.mark.parametrize(("dimension", "area"), [(2, 2 * math.pi), (3, 4 * math.pi), (4, 2 * math.pi**2)])
def test_surface_area_of_known_spheres(dimension: int, area: float) -> None:
    assert actgp.surface_area(dimension) == pytest.approx(area, rel=1e-14)


@given(dimension=st.integers(3, 500))
def test_areas_of_neighbouring_dimensions(dimension: int) -> None:
    # Slices of a sphere are spheres: Ω_{d−1} = Ω_{d−2} ∫ (1−t²)^((d−3)/2) dt, a Beta function.
    integral = math.exp(math.lgamma(0.5) + math.lgamma((dimension - 1) / 2) - math.lgamma(dimension / 2))
    assert actgp.surface_area(dimension) == pytest.approx(actgp.surface_area(dimension - 1) * integral, rel=1e-10)


@pytest.mark.parametrize(
    ("level", "dimension", "error", "text"),
    [
        (-1, 3, ValueError, "level must be at least 0, got -1"),
        (2, 1, ValueError, "dimension must be at least 2, got 1"),
        (1.5, 3, TypeError, "level must be an integer, got 1.5 of type float"),
        (1, "3", TypeError, "dimension must be an integer, got '3' of type str"),
        (True, 3, TypeError, "level must be an integer, got True"),
    ],
)
def test_bad_levels_and_dimensions_are_refused(
    level: object, dimension: object, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        actgp.num_harmonics(level, dimension)  # type: ignore[arg-type]


def test_numpy_and_torch_integers_are_integers() -> None:
    assert actgp.num_harmonics(torch.tensor(3), torch.tensor(3)) == 7  # type: ignore[arg-type]
