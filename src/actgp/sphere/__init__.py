"""The hypersphere S^(d−1): polynomials, series, harmonics and spectra."""

from actgp.sphere.chebyshev import chebyshev_series
from actgp.sphere.counting import num_harmonics, surface_area
from actgp.sphere.functions import with_derivative
from actgp.sphere.gegenbauer import gegenbauer, normalised_gegenbauer
from actgp.sphere.geometry import Polar, lift, project
from actgp.sphere.harmonics import SphericalHarmonics
from actgp.sphere.quadrature import QuadratureError
from actgp.sphere.series import chebyshev_coefficients, zonal_series
from actgp.sphere.spectrum import Spectrum, Zonal, spectrum

__all__ = [
    "Polar",
    "QuadratureError",
    "Spectrum",
    "SphericalHarmonics",
    "Zonal",
    "chebyshev_coefficients",
    "chebyshev_series",
    "gegenbauer",
    "lift",
    "normalised_gegenbauer",
    "num_harmonics",
    "project",
    "spectrum",
    "surface_area",
    "with_derivative",
    "zonal_series",
]
