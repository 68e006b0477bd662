"""Priors that were registered on parameters, with gpytorch's `register_prior`: what makes a fit one a posteriori."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from gpytorch.module import Module
from gpytorch.priors import Prior
from jaxtyping import Float
from torch import Tensor, nn


class _Registered(NamedTuple):
    """A prior, and what it is of."""

    module: nn.Module
    prior: Prior
    value: Callable[[nn.Module], Tensor]


def has_priors(model: nn.Module) -> bool:
    """Whether a prior is registered anywhere in a model."""
    return bool(_registered(model))


def log_prior(model: nn.Module) -> Float[Tensor, ""] | None:
    """Σ log p(θ) over the priors that are registered in a model; None if there are none.

    A part that several others share, such as one kernel of two layers, counts once, whatever its place.
    """
    found = [prior.log_prob(value(module)).sum() for module, prior, value in _registered(model)]
    return torch.stack([term.double() for term in found]).sum() if found else None


def _registered(model: nn.Module) -> list[_Registered]:
    return [
        _Registered(module, prior, value)
        for part in model.modules()  # each once
        if isinstance(part, Module)
        for _, module, prior, value, _ in part.named_priors()
        if module is part
    ]
