"""Likelihoods are gpytorch's, and one of our own; here is what a GP needs of each, behind one contract."""

from actgp.likelihoods.adapter import Latent, LikelihoodAdapter, Moments, NoiseParameters, adapter_of, supported
from actgp.likelihoods.bernoulli import BernoulliLogitLikelihood
from actgp.likelihoods.contaminated import ContaminatedGaussianLikelihood
from actgp.likelihoods.gaussian import gaussian
from actgp.likelihoods.general import QuadratureAdapter, SamplingAdapter
from actgp.likelihoods.gpytorch_names import OneDimensionalLikelihood
from actgp.likelihoods.softmax import SoftmaxAdapter
from actgp.likelihoods.targets import targets

__all__ = [
    "BernoulliLogitLikelihood",
    "ContaminatedGaussianLikelihood",
    "Latent",
    "LikelihoodAdapter",
    "Moments",
    "NoiseParameters",
    "OneDimensionalLikelihood",
    "QuadratureAdapter",
    "SamplingAdapter",
    "SoftmaxAdapter",
    "adapter_of",
    "gaussian",
    "supported",
    "targets",
]
