"""Inducing features, described and built."""

from typing import Any, get_args

import torch

from actgp.blueprints.activations import build_activation, describe_activation
from actgp.blueprints.source import Source, describe_levels, refuse_to_save
from actgp.features import ActivatedFeatures, DecoupledFeatures, InducingFeatures, InducingPoints, MeanFrom

CLASSES: dict[str, type[InducingFeatures]] = {
    c.__name__: c for c in (ActivatedFeatures, DecoupledFeatures, InducingPoints)
}
MEANS: dict[str, MeanFrom] = {name: name for name in get_args(MeanFrom)}


def describe_features(features: InducingFeatures, place: str) -> dict[str, Any]:
    """Class and options; how many there are is seen from their tensors."""
    if type(features) is InducingPoints:
        return {"class": "InducingPoints"}
    if type(features) is DecoupledFeatures:
        parts = {
            name: describe_features(getattr(features, name), f"{place}.{name}") for name in ("activated", "points")
        }
        return {"class": "DecoupledFeatures", "mean_from": features.mean_from, **parts}
    if type(features) is not ActivatedFeatures:
        refuse_to_save("inducing features", sorted(CLASSES), features, place)
    activation = describe_activation(features.activation, f"{place}.activation")
    levels = describe_levels(features.num_levels, place)
    return {"class": "ActivatedFeatures", "activation": activation, "num_levels": levels}


def build_features(source: Source) -> InducingFeatures:
    """The features of a description, their parameters yet to be set."""
    chosen = source.choose("class", CLASSES)
    if chosen is InducingPoints:
        return InducingPoints(torch.zeros(source.tensor("locations", None, None).shape))
    if chosen is DecoupledFeatures:
        mean_from = source.choose("mean_from", MEANS)
        activated, points = (build_features(source.part(name, name)) for name in ("activated", "points"))
        if not (isinstance(activated, ActivatedFeatures) and isinstance(points, InducingPoints)):
            source.refuse("activations and points as its parts", "others")
        return DecoupledFeatures(activated, points, mean_from)
    M, d = source.tensor("weights", None, None).shape
    activation = build_activation(source.part("activation", "activation"))
    return ActivatedFeatures(d - 1, M, activation, source.levels())
