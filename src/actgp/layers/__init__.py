"""GP layers: q(u), conditionals and KL."""

from actgp.layers.gp_layer import GPLayer, Marginals, solve_whitened, warn_of_mismatch
from actgp.layers.whitened import WhitenedGaussian

__all__ = ["GPLayer", "Marginals", "WhitenedGaussian", "solve_whitened", "warn_of_mismatch"]
