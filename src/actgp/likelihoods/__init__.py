"""Likelihoods are gpytorch's, and two of our own; here is what a GP needs of each, behind one contract."""

from actgp.gpytorch_names import OneDimensionalLikelihood
from actgp.likelihoods.adapter import Latent, LikelihoodAdapter, Moments, NoiseParameters, adapter_of
from actgp.likelihoods.bernoulli import BernoulliLogitLikelihood
from actgp.likelihoods.checked import supported, targets
from actgp.likelihoods.contaminated import ContaminatedGaussianLikelihood
from actgp.likelihoods.gaussian import gaussian
from actgp.likelihoods.general import QuadratureAdapter, SamplingAdapter
from actgp.likelihoods.softmax import SoftmaxAdapter

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
