"""Priors that were registered on parameters, with gpytorch's `register_prior`: what makes a fit one a posteriori."""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import torch
from gpytorch.module import Module
from gpytorch.priors import Prior
from jaxtyping import Float64
from torch import Tensor, nn


class _Registered(NamedTuple):
    """A prior, and what it is of."""

    name: str
    module: nn.Module
    prior: Prior
    value: Callable[[nn.Module], Tensor]


def has_priors(model: nn.Module) -> bool:
    """Whether a prior is registered anywhere in a model."""
    return any(isinstance(part, Prior) for part in model.modules())  # of which each is a part


def log_prior(model: nn.Module) -> Float64[Tensor, ""]:
    """Σ log p(θ) over the priors that are registered on a model's parameters; zero without any, −∞ outside a support.

    `fit` adds it to what it maximises. `model.elbo` leaves that to a loop of one's own. A part that several others
    share, such as one kernel of two layers, counts once.

    Example:
        >>> import actgp, gpytorch
        >>> kernel = actgp.ArcCosine(input_dim=2)
        >>> kernel.register_prior("lengthscale_prior", gpytorch.priors.LogNormalPrior(0.0, 1.0), "lengthscale")
        >>> actgp.log_prior(kernel)
        tensor(-1.8379, dtype=torch.float64, grad_fn=<SumBackward0>)
    """
    found = [_log_density(*registered).double().sum() for _, *registered in _registered(model)]
    return torch.stack(found).sum() if found else torch.zeros((), dtype=torch.float64)


def check_priors(model: nn.Module) -> None:
    """Refuses parameters that a prior gives no density."""
    for name, module, prior, value in _registered(model):
        if (_log_density(module, prior, value) == -inf).any():
            raise ValueError(
                f"a prior must have a density at the parameter's value, got {name}, a {type(prior).__name__}, at "
                f"{value(module).detach().flatten().tolist()[:5]}; set the parameter, and register a constraint that "
                "keeps it inside, such as gpytorch's Interval, or use a SmoothedBoxPrior"
            )


def _log_density(module: nn.Module, prior: Prior, value: Callable[[nn.Module], Tensor]) -> Tensor:
    at = value(module)
    try:
        return prior.log_prob(at)
    except ValueError:  # torch's, for values outside the support
        return at.new_full((), -inf)


def _registered(model: nn.Module) -> list[_Registered]:
    return [
        _Registered(name, module, prior, value)
        for part in model.modules()  # each once
        if isinstance(part, Module)
        for name, module, prior, value, _ in part.named_priors()
        if module is part
    ]
