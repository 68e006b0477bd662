"""Likelihoods are gpytorch's; here are the expectations under them that a GP needs."""

from actgp.likelihoods.expectation import conditional, conditional_log_prob, expected_log_prob, sample_latent
from actgp.likelihoods.supported import gaussian, supported
from actgp.likelihoods.targets import targets

__all__ = [
    "conditional",
    "conditional_log_prob",
    "expected_log_prob",
    "gaussian",
    "sample_latent",
    "supported",
    "targets",
]
