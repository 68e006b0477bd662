"""Two classes that gpytorch keeps to itself, and that this library cannot do without: their only place in it.

`OneDimensionalLikelihood`: p(y | f) of one latent function for each y. Deriving from it is how a likelihood says that
integrals over f are of a single variable, so that quadrature finds them; those of all others are sampled.

`GaussianNoise`: what all of gpytorch's Gaussian likelihoods derive from, also those whose noise is given row by row, or
is correlated between outputs, which models of this library refuse.
"""

from gpytorch.likelihoods.gaussian_likelihood import _GaussianLikelihoodBase as GaussianNoise
from gpytorch.likelihoods.likelihood import _OneDimensionalLikelihood as OneDimensionalLikelihood

__all__ = ["GaussianNoise", "OneDimensionalLikelihood"]
