"""What gpytorch keeps to itself, or has only in some of its releases, and this library uses: the only place of it.

`OneDimensionalLikelihood`: p(y | f) of one latent function for each y. Deriving from it is how a likelihood says that
integrals over f are of a single variable, so that quadrature finds them; those of all others are sampled.

`GaussianNoise`: what all of gpytorch's Gaussian likelihoods derive from, also those whose noise is given row by row, or
is correlated between outputs, which models of this library refuse.

`COUNT_LIKELIHOODS`: the Poisson and the negative binomial likelihood, which gpytorch has since 1.15, by their names.
"""

import gpytorch.likelihoods
from gpytorch.likelihoods import Likelihood
from gpytorch.likelihoods.gaussian_likelihood import _GaussianLikelihoodBase as GaussianNoise
from gpytorch.likelihoods.likelihood import _OneDimensionalLikelihood as OneDimensionalLikelihood

COUNT_LIKELIHOODS: dict[str, type[Likelihood]] = {
    name: getattr(gpytorch.likelihoods, name)
    for name in ("PoissonLikelihood", "NegativeBinomialLikelihood")
    if hasattr(gpytorch.likelihoods, name)
}

__all__ = ["COUNT_LIKELIHOODS", "GaussianNoise", "OneDimensionalLikelihood"]
