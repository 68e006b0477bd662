"""Activations of networks, as shape functions on the sphere."""

from actgp import checks
from actgp.activations.base import Activation
from actgp.activations.custom import CustomActivation
from actgp.activations.relu import ReLU
from actgp.activations.sharp import GELU, SharpActivation, Softplus, Swish, Tanh

__all__ = [
    "GELU",
    "Activation",
    "CustomActivation",
    "ReLU",
    "SharpActivation",
    "Softplus",
    "Swish",
    "Tanh",
    "activation",
]

_NAMES: dict[str, type[Activation]] = {
    "relu": ReLU,
    "softplus": Softplus,
    "swish": Swish,
    "silu": Swish,
    "gelu": GELU,
    "tanh": Tanh,
}


def activation(name: str | Activation) -> Activation:
    """The activation of a name (`relu`, `softplus`, `swish` or `silu`, `gelu`, `tanh`); activations pass through.

    Args:
        name: A name, or an activation.

    Returns:
        The activation, with a sharpness of one where it has a sharpness.

    Example:
        >>> import actgp
        >>> type(actgp.activation("silu")).__name__
        'Swish'
    """
    if isinstance(name, Activation):
        return name
    if not isinstance(name, str):
        raise TypeError(
            f"activation must be a name or an actgp activation, got {type(name).__name__}; "
            f"pass one of {sorted(_NAMES)}, or wrap a function in actgp.CustomActivation"
        )
    return _NAMES[checks.choice(name.lower(), "activation", _NAMES)]()
