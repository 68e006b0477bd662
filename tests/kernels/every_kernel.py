"""One kernel of every kind, by its number of inputs."""

from collections.abc import Callable

import mpmath
import torch

import actgp

KERNELS: dict[str, Callable[[int], actgp.ZonalKernel]] = {
    "order 0": lambda D: actgp.ArcCosine(D, order=0),
    "order 1": actgp.ArcCosine,
    "order 2": lambda D: actgp.ArcCosine(D, order=2),
    "Matérn 1/2": lambda D: actgp.ZonalMatern(D, nu=0.5),
    "Matérn 3/2": lambda D: actgp.ZonalMatern(D, nu=1.5),
    "Matérn 5/2": actgp.ZonalMatern,
    "RBF": actgp.ZonalRBF,
    "matched": lambda D: actgp.MatchedKernel(D, "swish", 12),
    "spectral": lambda D: actgp.SpectralKernel(D, [0.2, 0.3, 0.0, 0.5]),
    "custom": lambda D: actgp.CustomKernel(D, lambda t: torch.exp(2 * (t - 1)), lambda t: mpmath.exp(2 * (t - 1))),
}
