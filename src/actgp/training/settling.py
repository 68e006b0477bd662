"""The last word, which rows that were held out have, on one number.

Gaussian noise: while m and S still move, it has to cover the errors that they have not made good yet, and it follows
them slowly; where data have hardly any, stage 2 ends with too much of it.

Classes: a temperature T, by which all latent functions are divided (Guo et al., 2017). f / T is what the last layer is
with a kernel variance of v / T²: in whitened coordinates A ∝ √v, and q stays as it is. T is never below one: rows that
are like the training data may make a model less sure, but say nothing of what is unlike them.

Few rows say little: a change is judged beside a prior, its logarithm ~ N(0, 1).
"""

from collections.abc import Callable
from math import exp, log

import torch
from gpytorch.likelihoods import BernoulliLikelihood, SoftmaxLikelihood
from scipy.optimize import minimize_scalar
from torch import Tensor

from actgp.likelihoods import log_marginal
from actgp.models import DeepGP
from actgp.training.objectives import SEED
from actgp.training.scales import free_variance, has_free_noise, set_noise, set_variance

FARTHEST = 5.0  # that a logarithm changes
PATHS = 50


@torch.no_grad()
def settle(model: DeepGP, X: Tensor, y: Tensor, *, temperature: bool) -> None:
    """Chooses noise, or a temperature if that is wanted, by rows that the model was not trained on."""
    last = model.gp_layers[-1]
    variance = free_variance(last)
    if has_free_noise(model):
        noise = model.likelihood.noise.item()
        score = _score(model, X, y)

        def with_noise(change: float) -> float:
            set_noise(model, noise * exp(change))
            return score(1.0)

        set_noise(model, noise * exp(_best(with_noise)))
    elif temperature and isinstance(model.likelihood, BernoulliLikelihood | SoftmaxLikelihood) and variance is not None:
        score = _score(model, X, y)
        if last.prior_mean == "zero":
            set_variance(last, variance * exp(2 * _best(lambda change: score(exp(change)), highest=0.0)))


def _score(model: DeepGP, X: Tensor, y: Tensor) -> Callable[[float], float]:
    """The log density of all rows, where the latent functions are multiplied by a factor."""
    mean, variance = model.paths(X, PATHS, generator=torch.Generator(X.device).manual_seed(SEED))  # [S, N, P]

    def score(factor: float) -> float:
        generator = torch.Generator(X.device).manual_seed(SEED)
        paths = log_marginal(model.likelihood, y, factor * mean, factor**2 * variance, generator=generator)  # [S, N]
        return (paths.logsumexp(0) - log(len(paths))).sum().item()

    return score


def _best(score: Callable[[float], float], highest: float = FARTHEST) -> float:
    """The logarithm of a factor, beside its prior; zero where nothing is better."""

    def loss(change: float) -> float:
        return 0.5 * change**2 - score(change)

    found = float(minimize_scalar(loss, bounds=(-FARTHEST, highest), method="bounded").x)
    return found if loss(found) < loss(0.0) else 0.0
