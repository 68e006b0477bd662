"""Computations that mixed precision would ruin, kept out of it.

Under `torch.autocast` matrix products of float32 are computed in bfloat16, with three digits. Whitened covariances, and
means that are small differences of large terms, do not survive that. What is decorated here runs with autocast switched
off, in the precision of what it is given; a network in front, a user's own, keeps to what the caller wants.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def _accelerator() -> str:
    """The type of device that torch was built for, the CPU if for no other."""
    try:
        device = torch.accelerator.current_accelerator()
    except RuntimeError:  # torch 2.6, where there is none
        return "cpu"
    return "cpu" if device is None else device.type


DEVICE_TYPES = ("cpu", _accelerator())


def full_precision(function: Callable[P, T]) -> Callable[P, T]:
    """The same function with autocast switched off while it runs."""

    @wraps(function)
    def exact(*args: P.args, **kwargs: P.kwargs) -> T:
        if not autocasting():
            return function(*args, **kwargs)
        first, last = DEVICE_TYPES
        with torch.autocast(first, enabled=False), torch.autocast(last, enabled=False):
            return function(*args, **kwargs)

    return exact


def autocasting() -> bool:
    """Whether autocast is on, for any device."""
    return any(torch.is_autocast_enabled(kind) for kind in DEVICE_TYPES)
