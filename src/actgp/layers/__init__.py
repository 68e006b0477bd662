"""GP layers: q(u), conditionals and KL; and the network layer that is their mean."""

from actgp.layers.gp_layer import (
    Constants,
    GPLayer,
    PriorMean,
    constants_and_kl,
    kernel_products,
    mean_function,
    mean_functions,
)
from actgp.layers.network import NetworkLayer
from actgp.layers.pairing import check_kernel, check_pair
from actgp.layers.pathwise import LayerFunction, SampledFunction, draw_functions
from actgp.layers.variational import Marginals, WhitenedGaussian

__all__ = [
    "Constants",
    "GPLayer",
    "LayerFunction",
    "Marginals",
    "NetworkLayer",
    "PriorMean",
    "SampledFunction",
    "WhitenedGaussian",
    "check_kernel",
    "check_pair",
    "constants_and_kl",
    "draw_functions",
    "kernel_products",
    "mean_function",
    "mean_functions",
]
