"""Blueprints: what a model is made of, in words and tensors, and how it is built again from them."""

from actgp.blueprints.backbones import check_backbone, describe_backbone, is_the_backbone, parts_of, saved_parts
from actgp.blueprints.features import build_features, describe_features
from actgp.blueprints.kernels import build_kernel, describe_kernel
from actgp.blueprints.layers import build_layer, describe_layer
from actgp.blueprints.likelihoods import build_likelihood, describe_likelihood
from actgp.blueprints.source import DescriptionError, Source
from actgp.blueprints.state import KIND, Description, describe_state, give_state

__all__ = [
    "KIND",
    "Description",
    "DescriptionError",
    "Source",
    "build_features",
    "build_kernel",
    "build_layer",
    "build_likelihood",
    "check_backbone",
    "describe_backbone",
    "describe_features",
    "describe_kernel",
    "describe_layer",
    "describe_likelihood",
    "describe_state",
    "give_state",
    "is_the_backbone",
    "parts_of",
    "saved_parts",
]
