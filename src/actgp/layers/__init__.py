"""GP layers: q(u), conditionals and KL."""

from actgp.layers.gp_layer import GPLayer, Marginals, check_kernel, check_pair, solve_whitened
from actgp.layers.whitened import WhitenedGaussian

__all__ = ["GPLayer", "Marginals", "WhitenedGaussian", "check_kernel", "check_pair", "solve_whitened"]
