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
from actgp.likelihoods.ordinal import label_moments, label_quantile, num_ordered_labels, ordered
from actgp.likelihoods.supported import gaussian, supported
from actgp.likelihoods.targets import targets

__all__ = [
    "ContaminatedGaussianLikelihood",
    "conditional",
    "conditional_log_prob",
    "expected_log_prob",
    "fisher_factors",
    "gaussian",
    "label_moments",
    "label_quantile",
    "log_marginal",
    "noise_mixture",
    "noise_variance",
    "num_ordered_labels",
    "ordered",
    "relative_noise",
    "sample_latent",
    "supported",
    "targets",
]
