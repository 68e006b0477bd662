"""The variance of Gaussian noise: where it begins, and the last word on it.

While m and S still move, noise has to cover the errors that they have not made good yet, and it follows them slowly:
where data have hardly any, stage 2 ends with too much of it. Held-out rows then say how much there is. Few of them say
little: the step is judged beside a prior, log(noise / what it was) ~ N(0, 1).
"""

from math import exp, log

import torch
from gpytorch.likelihoods import GaussianLikelihood
from scipy.optimize import minimize_scalar
from torch import Tensor

from actgp.likelihoods import log_marginal
from actgp.models import DeepGP
from actgp.training.objectives import judged_paths

FARTHEST = 5.0  # of log(noise / what it was)


def has_free_noise(model: DeepGP) -> bool:
    """Whether there is Gaussian noise that may be changed."""
    return isinstance(model.likelihood, GaussianLikelihood) and model.likelihood.raw_noise.requires_grad


def set_noise(model: DeepGP, noise: float) -> None:
    """Sets the noise variance, within its bound."""
    lower = float(model.likelihood.noise_covar.raw_noise_constraint.lower_bound)
    model.likelihood.noise = max(noise, 1.001 * lower)  # at the bound itself there is no gradient


@torch.no_grad()
def settle_noise(model: DeepGP, X: Tensor, y: Tensor) -> None:
    """Chooses the noise by rows that the model was not trained on; nothing else changes."""
    if not has_free_noise(model):
        return
    mean, variance = judged_paths(model, X)  # [S, N, P]
    before = model.likelihood.noise.item()

    def loss(change: float) -> float:
        set_noise(model, before * exp(change))
        paths = log_marginal(model.likelihood, y, mean, variance)  # [S, N]
        return -(paths.logsumexp(0) - log(len(paths))).sum().item() + 0.5 * change**2

    best = float(minimize_scalar(loss, bounds=(-FARTHEST, FARTHEST), method="bounded").x)
    set_noise(model, before * exp(best) if loss(best) < loss(0.0) else before)
