"""What the stages maximise, in nats for each row of the data.

network:     log p(y_i | f(x_i)) at the composed means f
elbo:        E[log p(y_i | h_iL)] − w KL / N
predictive:  log (1/S) Σ_s p(y_i | path s) − w KL / N

each plus log p(θ) / N, where priors are registered on parameters θ: maximum a posteriori.
"""

from collections.abc import Callable
from math import log, pi
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.likelihoods import adapter_of
from actgp.models import DeepGP, has_priors, log_prior
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


def network_objective(model: DeepGP, X: Tensor, y: Tensor, prior: Callable[[], Tensor] | None = None) -> Evaluation:
    """The log-likelihood of the network, and, where they are given, priors (`prior_share`).

    For Gaussian noise the loss is the squared error e, and what is reported the log-likelihood with that as the noise,
    −P/2 log e up to a constant. Its slope is that of e times −P / 2e, and so log p(θ) / N counts 2e / P in the loss.
    """
    f = model.mean(X)
    f = f.unsqueeze(-1) if f.ndim == 1 else f  # [B, P]
    adapter = adapter_of(model.likelihood)
    if adapter.squared_error:
        loss = error = nn.functional.mse_loss(f, y)
        noise = error.detach().clamp_min(torch.finfo(error.dtype).tiny)
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
    X: Tensor,
    y: Tensor,
    num_data: int,
    recipe: Recipe,
    kl_weight: float,
    generator: torch.Generator | None,
    prior: Callable[[], Tensor] | None = None,
) -> Evaluation:
    """The ELBO or the predictive objective, with a weighted KL, and, where they are given, priors (`prior_share`)."""
    h, (constants, kl) = model.enter(X), model.constants_and_kl()
    noises = model.noises(h, recipe.num_samples, generator=generator)
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

    Args:
        model: The model.
        X: Inputs of these rows.
        y: Their targets.
        num_data: N, the rows that it is trained on.
    """
    prior = prior_share(model, num_data)
    found = network_objective(model, X, y, prior)
    return -found.loss.item() if prior is None else found.objective.item()


@torch.no_grad()
def posterior_score(model: DeepGP, X: Tensor, y: Tensor) -> float:
    """The mean log density of rows that the posterior is not trained on, always along the same paths.

    The paths differ from row to row, unlike those of a prediction: their errors average out over the rows.
    """
    generator = torch.Generator(X.device).manual_seed(SEED)
    paths = model.paths(X, SCORE_SAMPLES, generator=generator)
    densities = adapter_of(model.likelihood).log_marginal(y, paths, generator)  # [S, N]
    return (densities.logsumexp(0) - log(len(densities))).mean().item()
