"""Inducing features: what u is, and its covariances with itself and with f."""

from actgp.features.activated import ActivatedFeatures
from actgp.features.base import InducingFeatures
from actgp.features.decoupled import DecoupledFeatures, MeanFrom
from actgp.features.match import SpectralMatch, SpectralMismatchWarning, spectral_match
from actgp.features.points import InducingPoints, centres
from actgp.features.units import Units, through_units
from actgp.features.whitening import Whitening, inverse_factor, whitening, whitenings

__all__ = [
    "ActivatedFeatures",
    "DecoupledFeatures",
    "InducingFeatures",
    "InducingPoints",
    "MeanFrom",
    "SpectralMatch",
    "SpectralMismatchWarning",
    "Units",
    "Whitening",
    "centres",
    "inverse_factor",
    "spectral_match",
    "through_units",
    "whitening",
    "whitenings",
]
