"""Inducing features: what u is, and its covariances with itself and with f."""

from actgp.features.activated import ActivatedFeatures
from actgp.features.alike import means_of, whitenings_of
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
    "means_of",
    "spectral_match",
    "whitenings_of",
]
