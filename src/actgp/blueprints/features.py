"""Inducing features, described and built."""

from typing import Any

import torch

from actgp.blueprints.activations import build_activation, describe_activation
from actgp.blueprints.source import Source, describe_levels, refuse_to_save
from actgp.features import ActivatedFeatures, InducingFeatures, InducingPoints

CLASSES: dict[str, type[InducingFeatures]] = {c.__name__: c for c in (ActivatedFeatures, InducingPoints)}


def describe_features(features: InducingFeatures, place: str) -> dict[str, Any]:
    """Class and options; how many there are is seen from their tensors."""
    if type(features) is InducingPoints:
        return {"class": "InducingPoints"}
    if type(features) is not ActivatedFeatures:
        refuse_to_save("inducing features", sorted(CLASSES), features, place)
    activation = describe_activation(features.activation, f"{place}.activation")
    levels = describe_levels(features.num_levels, place)
    return {"class": "ActivatedFeatures", "activation": activation, "num_levels": levels}


def build_features(source: Source) -> InducingFeatures:
    """The features of a description, their parameters yet to be set."""
    if source.choose("class", CLASSES) is InducingPoints:
        return InducingPoints(torch.zeros(source.tensor("locations", None, None).shape))
    M, d = source.tensor("weights", None, None).shape
    activation = build_activation(source.part("activation", "activation"))
    return ActivatedFeatures(d - 1, M, activation, source.levels())
