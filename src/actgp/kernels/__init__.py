"""Zonal kernels on R^D, by their shape on the sphere."""

from actgp.kernels.arccosine import ArcCosine
from actgp.kernels.custom import CustomKernel
from actgp.kernels.matched import MatchedKernel
from actgp.kernels.matern import ZonalMatern
from actgp.kernels.rbf import ZonalRBF
from actgp.kernels.spectral import SpectralKernel
from actgp.kernels.zonal import ZonalKernel

__all__ = ["ArcCosine", "CustomKernel", "MatchedKernel", "SpectralKernel", "ZonalKernel", "ZonalMatern", "ZonalRBF"]
