"""Likelihoods are gpytorch's, and one of our own; here are the expectations under them that a GP needs."""

from actgp.likelihoods.contaminated import (
    ContaminatedGaussianLikelihood,
    noise_mixture,
    noise_variance,
    relative_noise,
)
from actgp.likelihoods.expectation import conditional, conditional_log_prob, expected_log_prob, sample_latent
from actgp.likelihoods.fisher import fisher_factors
from actgp.likelihoods.marginal import log_marginal
from actgp.likelihoods.supported import gaussian, supported
from actgp.likelihoods.targets import targets

__all__ = [
    "ContaminatedGaussianLikelihood",
    "conditional",
    "conditional_log_prob",
    "expected_log_prob",
    "fisher_factors",
    "gaussian",
    "log_marginal",
    "noise_mixture",
    "noise_variance",
    "relative_noise",
    "sample_latent",
    "supported",
    "targets",
]
