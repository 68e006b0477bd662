"""Inducing features: what u is, and its covariances with itself and with f."""

from actgp.features.activated import ActivatedFeatures
from actgp.features.base import InducingFeatures, Whitening
from actgp.features.decoupled import DecoupledFeatures, MeanFrom
from actgp.features.match import SpectralMatch, SpectralMismatchWarning, spectral_match
from actgp.features.points import InducingPoints
from actgp.features.units import Units, through_units

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
    "spectral_match",
    "through_units",
]
