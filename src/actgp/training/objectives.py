"""What the stages maximise, in nats for each row of the data.

network:     log p(y_i | f(x_i)) at the composed means f
elbo:        E[log p(y_i | h_iL)] − w KL / N
predictive:  log (1/S) Σ_s p(y_i | path s) − w KL / N

each plus log p(θ) / N, where priors are registered on parameters θ (`register_prior`): maximum a posteriori.
"""

from collections.abc import Callable
from math import inf, log, pi
from typing import NamedTuple

import torch
from gpytorch.module import Module
from gpytorch.priors import Prior
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp.likelihoods import adapter_of
from actgp.models import DeepGP
from actgp.several import Rows
from actgp.training import ranks
from actgp.training.recipe import Recipe

SCORE_SAMPLES = 10
SEED = 0


class Evaluation(NamedTuple):
    """A loss to descend, and the objective to report."""

    loss: Float[Tensor, ""]
    objective: Float[Tensor, ""]


def prior_share(model: DeepGP, num_data: int) -> Callable[[], Tensor] | None:
    """() ↦ log p(θ) / N; None where no priors are registered."""
    return (lambda: log_prior(model) / num_data) if has_priors(model) else None


def network_objective(
    model: DeepGP,
    X: Rows,
    y: Tensor,
    prior: Callable[[], Tensor] | None = None,
    average: Callable[[Tensor], Tensor] = lambda error: error,
) -> Evaluation:
    """The log-likelihood of the network, and, where they are given, priors (`prior_share`).

    For Gaussian noise the loss is the squared error e, and what is reported the log-likelihood with that as the noise,
    −P/2 log e up to a constant. Its slope is that of e times −P / 2e, and so log p(θ) / N counts 2e / P in the loss.
    Where rows are those of one of several ranks, `average` makes of their e that of all rows.
    """
    f = model.mean(X)
    f = f.unsqueeze(-1) if f.ndim == 1 else f  # [B, P]
    adapter = adapter_of(model.likelihood)
    if adapter.squared_error:
        loss = error = nn.functional.mse_loss(f, y)
        noise = average(error.detach()).clamp_min(torch.finfo(error.dtype).tiny)
        objective = -0.5 * y.shape[1] * (log(2 * pi) + 1 + noise.log())
        weight = 2 / y.shape[1] * noise
    else:
        objective = adapter.conditional_log_prob(f, y).mean()
        loss, weight = -objective, torch.ones_like(objective)
    if prior is not None:
        share = prior().to(loss)
        loss, objective = loss - weight * share, objective + share
    return Evaluation(loss, objective.detach())


def posterior_objective(
    model: DeepGP,
    X: Rows,
    y: Tensor,
    num_data: int,
    recipe: Recipe,
    kl_weight: float,
    generator: torch.Generator | None,
    prior: Callable[[], Tensor] | None = None,
) -> Evaluation:
    """The ELBO or the predictive objective, with a weighted KL, and, where they are given, priors (`prior_share`)."""
    h, (constants, kl) = model.enter(X), model.constants_and_kl()
    noises = _noises(model, h, recipe.num_samples, generator)
    paths, adapter = model.along(h, constants, noises), adapter_of(model.likelihood)  # [S, B, P]
    if recipe.objective == "elbo":
        fit = adapter.expected_log_prob(y, paths, generator).mean(0)  # [B]
    else:
        densities = adapter.log_marginal(y, paths, generator)  # [S, B]
        fit = densities.logsumexp(0) - log(len(densities))
    objective = fit.mean() - kl_weight / num_data * kl
    if prior is not None:
        objective = objective + prior().to(objective)
    return Evaluation(-objective * num_data, objective.detach())


@torch.no_grad()
def network_score(model: DeepGP, X: Tensor, y: Tensor, num_data: int) -> float:
    """How well the network predicts rows that it is not trained on: the higher the better. Priors count here, too.

    All ranks call it, each with its part of the rows, as `posterior_score`.

    Args:
        model: The model.
        X: Inputs of these rows.
        y: Their targets.
        num_data: N, the rows that it is trained on.
    """
    prior = prior_share(model, num_data)
    found = network_objective(model, X, y, prior, ranks.mean)
    return ranks.mean_number(-found.loss.item() if prior is None else found.objective.item())


@torch.no_grad()
def posterior_score(model: DeepGP, X: Tensor, y: Tensor) -> float:
    """The mean log density of rows that the posterior is not trained on, always along the same paths.

    The paths differ from row to row, unlike those of a prediction: their errors average out over the rows.
    """
    generator = torch.Generator(X.device).manual_seed(SEED)
    h, (constants, _) = model.enter(X), model.constants_and_kl()
    paths = model.along(h, constants, _noises(model, h, SCORE_SAMPLES, generator))
    densities = adapter_of(model.likelihood).log_marginal(y, paths, generator)  # [S, N]
    return ranks.mean_number((densities.logsumexp(0) - log(len(densities))).mean().item())


def _noises(model: DeepGP, h: Tensor, num_samples: int, generator: torch.Generator | None) -> list[Tensor]:
    """ε for paths of a rank's rows, [S, B, H] for each hidden layer: its part of those of all ranks."""
    of_all = h.new_empty(ranks.size() * len(h), 0)
    own = ranks.even_rows(len(of_all))
    return [noise[:, own] for noise in model.noises(of_all, num_samples, generator=generator)]


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

    Args:
        model: A model, or a part of one, such as a kernel.

    Returns:
        The sum, a tensor with gradients.

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
