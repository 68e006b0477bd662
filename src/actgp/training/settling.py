"""The last word, which rows that were held out have.

Gaussian noise: while m and S still move, it has to cover the errors that they have not made good yet, and it follows
them slowly; where data have hardly any, stage 2 ends with too much of it. The same is true of what layers are unsure
of, S and the part of the prior that inducing variables leave unexplained. Three numbers are chosen, by which the noise
variance, all S Sᵀ and that unexplained part of all layers are multiplied. Means stay as they are: A ∝ √v for a kernel
of variance v, and with a factor φ of v, m / √φ and S / √φ leave A m and A S in place.

Classes: a temperature T, by which all latent functions are divided (Guo et al., 2017). f / T is what the last layer is
with a kernel variance of v / T², q as it is. T is never below one: rows that are like the training data may make a
model less sure, but say nothing of what is unlike them.

Few rows say little: changes are judged beside a prior, under which logarithms are normal about zero.
"""

from collections.abc import Callable
from math import exp, inf, isfinite, log
from typing import Any

import numpy as np
import torch
from gpytorch.likelihoods import BernoulliLikelihood, SoftmaxLikelihood
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from torch import Tensor

from actgp.likelihoods import log_marginal
from actgp.models import DeepGP
from actgp.training.objectives import SEED, posterior_score
from actgp.training.scales import free_variance, has_free_noise, set_noise, set_variance

NOISE_SPREAD, LAYER_SPREAD = 1.0, 0.3  # standard deviations of the prior
MOST_ROWS, MOST_PASSES = 1_000, 100  # through the model, to choose three numbers
HOTTEST = 5.0  # the logarithm of a temperature
PATHS = 50  # that a temperature is chosen by


@torch.no_grad()
def settle(model: DeepGP, X: Tensor, y: Tensor, *, temperature: bool) -> None:
    """Chooses noise and variances, or a temperature if that is wanted, by rows that the model was not trained on."""
    if has_free_noise(model):
        _settle_variances(model, X[:MOST_ROWS], y[:MOST_ROWS])
    elif temperature and isinstance(model.likelihood, BernoulliLikelihood | SoftmaxLikelihood):
        _settle_temperature(model, X, y)


def _settle_variances(model: DeepGP, X: Tensor, y: Tensor) -> None:
    multiply = _dials(model)
    spreads = (NOISE_SPREAD, LAYER_SPREAD, LAYER_SPREAD)

    def loss(logarithms: NDArray[np.float64]) -> float:
        multiply(*map(exp, logarithms))
        prior = sum(0.5 * (value / sd) ** 2 for value, sd in zip(logarithms, spreads, strict=True))
        total = prior - len(X) * posterior_score(model, X, y)
        return total if isfinite(total) else inf

    start = np.vstack([np.zeros(3), -np.eye(3)])
    options: Any = {"initial_simplex": start, "maxfev": MOST_PASSES, "xatol": 0.02, "fatol": 0.1}
    multiply(*np.exp(minimize(loss, start[0], method="Nelder-Mead", options=options).x))


def _dials(model: DeepGP) -> Callable[[float, float, float], None]:
    """What multiplies the noise, S Sᵀ and the unexplained variance, as they are now."""
    noise = model.likelihood.noise.item()
    layers = [
        (layer, free_variance(layer), layer.q.mean.clone(), layer.q.scale_tril.clone())
        for layer in model.gp_layers
        if layer.q.raw_scale_tril.requires_grad
    ]

    def multiply(of_noise: float, of_scales: float, of_unexplained: float) -> None:
        set_noise(model, noise * of_noise)
        for layer, variance, m, S in layers:
            phi = 1.0 if variance is None else of_unexplained
            if variance is not None:
                set_variance(layer, variance * phi)
            layer.q.assign(m / phi**0.5, S * (of_scales / phi) ** 0.5)

    return multiply


def _settle_temperature(model: DeepGP, X: Tensor, y: Tensor) -> None:
    last = model.gp_layers[-1]
    variance = free_variance(last)
    if variance is None or last.prior_mean != "zero":
        return
    mean, spread = model.paths(X, PATHS, generator=torch.Generator(X.device).manual_seed(SEED))  # [S, N, P]

    def loss(logarithm: float) -> float:
        factor, generator = exp(-logarithm), torch.Generator(X.device).manual_seed(SEED)
        paths = log_marginal(model.likelihood, y, factor * mean, factor**2 * spread, generator=generator)  # [S, N]
        return 0.5 * (logarithm / NOISE_SPREAD) ** 2 - (paths.logsumexp(0) - log(len(paths))).sum().item()

    found = float(minimize_scalar(loss, bounds=(0.0, HOTTEST), method="bounded").x)
    if loss(found) < loss(0.0):
        set_variance(last, variance * exp(-2 * found))
