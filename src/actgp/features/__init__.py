"""Inducing features: what u is, and its covariances with itself and with f."""

from actgp.features.activated import ActivatedFeatures
from actgp.features.base import InducingFeatures, Whitening
from actgp.features.decoupled import DecoupledFeatures, MeanFrom
from actgp.features.match import SpectralMatch, SpectralMismatchWarning, spectral_match
from actgp.features.points import InducingPoints

__all__ = [
    "ActivatedFeatures",
    "DecoupledFeatures",
    "InducingFeatures",
    "InducingPoints",
    "MeanFrom",
    "SpectralMatch",
    "SpectralMismatchWarning",
    "Whitening",
    "spectral_match",
]
