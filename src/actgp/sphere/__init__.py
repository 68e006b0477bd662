"""The hypersphere S^(d−1): polynomials, series, harmonics and spectra."""

from actgp.sphere.counting import num_harmonics, surface_area
from actgp.sphere.gegenbauer import gegenbauer, normalised_gegenbauer
from actgp.sphere.geometry import Polar, lift, project
from actgp.sphere.harmonics import SphericalHarmonics
from actgp.sphere.polynomial import Polynomial, evaluated, polynomial, with_derivative
from actgp.sphere.quadrature import QuadratureError
from actgp.sphere.series import zonal_series
from actgp.sphere.spectrum import Spectrum, Zonal, spectrum

__all__ = [
    "Polar",
    "Polynomial",
    "QuadratureError",
    "Spectrum",
    "SphericalHarmonics",
    "Zonal",
    "evaluated",
    "gegenbauer",
    "lift",
    "normalised_gegenbauer",
    "num_harmonics",
    "polynomial",
    "project",
    "spectrum",
    "surface_area",
    "with_derivative",
    "zonal_series",
]
