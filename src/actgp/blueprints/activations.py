"""Activations, described and built."""

from typing import Any

from actgp.activations import GELU, Activation, ReLU, SharpActivation, Softplus, Swish, Tanh
from actgp.blueprints.source import Source, refuse_to_save

SHARP: dict[str, type[SharpActivation]] = {"Softplus": Softplus, "Swish": Swish, "GELU": GELU, "Tanh": Tanh}
ALL: dict[str, type[Activation]] = {"ReLU": ReLU, **SHARP}


def describe_activation(activation: Activation, place: str) -> dict[str, Any]:
    """Its class, and whether its sharpness is learnable; the sharpness itself is a tensor."""
    if type(activation) not in ALL.values():
        refuse_to_save("an activation", sorted(ALL), activation, place)
    learnable = {"learnable": activation.learnable} if isinstance(activation, SharpActivation) else {}
    return {"class": type(activation).__name__, **learnable}


def build_activation(source: Source) -> Activation:
    """The activation of a description."""
    if source.choose("class", ALL) is ReLU:
        return ReLU()
    sharp = source.choose("class", SHARP)
    if source.get("learnable", bool):
        source.tensor("raw_beta")
        return sharp(learnable=True)
    return sharp(source.tensor("fixed_beta").item())
