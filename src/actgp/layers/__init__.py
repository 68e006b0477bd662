"""GP layers: q(u), conditionals and KL; and the network layer that is their mean."""

from actgp.layers.conditional import Marginals
from actgp.layers.gp_layer import Constants, GPLayer, PriorMean, constants_of
from actgp.layers.network import NetworkLayer, layer_means, mean_of
from actgp.layers.pairing import check_kernel, check_pair
from actgp.layers.pathwise import LayerFunction, draw_functions
from actgp.layers.whitened import WhitenedGaussian

__all__ = [
    "Constants",
    "GPLayer",
    "LayerFunction",
    "Marginals",
    "NetworkLayer",
    "PriorMean",
    "WhitenedGaussian",
    "check_kernel",
    "check_pair",
    "constants_of",
    "draw_functions",
    "layer_means",
    "mean_of",
]
