"""What is chosen after stage 2, by rows that were held out of it: how wide predictions are, while means stay.

Gaussian noise: as long as m and S move, the noise has to cover errors that they have yet to remove, and it follows them
slowly; where data have hardly any noise, stage 2 ends with too much of it. The same is true of the other two parts of a
predictive variance, S Sᵀ and the part k(x, x) − Σ A² of the prior that inducing variables leave unexplained. Three
factors are chosen, the same for all layers: of the noise variance, of S Sᵀ, and φ of the unexplained part.

φ multiplies the kernel's variance v. Since A ∝ √v, dividing m and S by √φ keeps the mean A m and the product A S. A
layer whose kernel has no free variance has φ = 1; one whose S is frozen is left alone.

Classes: a temperature T, by which all latent functions are divided (Guo et al., 2017). A last layer with the kernel
variance v / T² and the same q is f / T. T is never below one: rows that are like the training data may make a model
less sure, but say nothing of inputs that are unlike them.

Few rows say little. So each choice is judged by the log density of the rows plus that of a prior, under which the
logarithms of the factors, or of T, are normal about zero.
"""

from collections.abc import Callable
from math import exp, inf, isfinite, log
from typing import Any, NamedTuple

import numpy as np
import torch
from gpytorch.constraints import Interval
from gpytorch.kernels import ScaleKernel
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from torch import Tensor

from actgp.kernels import ZonalKernel
from actgp.layers import GPLayer
from actgp.likelihoods import Latent, adapter_of
from actgp.models import DeepGP, log_prior
from actgp.training.objectives import SEED, posterior_score

SMALLEST_NOISE = 1e-12  # where there is no bound above zero, and the data have no noise


NOISE_SPREAD, LAYER_SPREAD = 1.0, 0.3  # standard deviations of the prior: of noise and temperature, of the other two
MOST_ROWS, MOST_PASSES = 1_000, 100  # how many rows go through the model how often, to choose three factors
HOTTEST = 5.0  # the largest logarithm of a temperature
PATHS = 50  # sampled to choose a temperature


def has_free_noise(model: DeepGP) -> bool:
    """Whether there is Gaussian noise that may be changed."""
    return _may_change(adapter_of(model.likelihood).noise_parameters().noise)


def has_free_outliers(model: DeepGP) -> bool:
    """Whether there are outliers whose noise may be changed."""
    return _may_change(adapter_of(model.likelihood).noise_parameters().outlier_noise)


def has_free_slopes(model: DeepGP) -> bool:
    """Whether there is noise that varies, and whose slopes may be changed."""
    return _may_change(adapter_of(model.likelihood).noise_parameters().slopes)


def _may_change(parameter: Tensor | None) -> bool:
    return parameter is not None and parameter.requires_grad


def set_noise(model: DeepGP, noise: float) -> None:
    """Sets the noise variance, within its bounds."""
    model.likelihood.noise = _within(model.likelihood.noise_covar.raw_noise_constraint, noise)


def set_outlier_noise(model: DeepGP, noise: float) -> None:
    """Sets what outliers have in addition, within its bounds."""
    likelihood = model.likelihood
    largest = torch.finfo(likelihood.raw_outlier_noise.dtype).max
    likelihood.outlier_noise = min(_within(likelihood.raw_outlier_noise_constraint, noise), 0.1 * largest)


def _within(constraint: Interval, value: float) -> float:
    """Inside its bounds: at a bound itself there is no gradient."""
    lower, upper = float(constraint.lower_bound), float(constraint.upper_bound)
    highest = upper - 0.001 * (upper - max(lower, 0.0)) if isfinite(upper) else upper
    return min(max(value, 1.001 * lower, SMALLEST_NOISE), highest)


def free_variance(layer: GPLayer) -> Tensor | None:
    """The variance of a layer's kernel, if it has one that may be set to any positive value."""
    kernel = layer.kernel
    if isinstance(kernel, ZonalKernel) and _is_free(kernel.raw_variance, kernel.raw_variance_constraint):
        return kernel.variance
    if isinstance(kernel, ScaleKernel) and _is_free(kernel.raw_outputscale, kernel.raw_outputscale_constraint):
        return kernel.outputscale
    return None


def _is_free(raw: Tensor, constraint: Interval) -> bool:
    return raw.requires_grad and float(constraint.lower_bound) <= 0 and float(constraint.upper_bound) == inf


def set_variance(layer: GPLayer, variance: Tensor) -> None:
    """Sets the variance of a layer's kernel."""
    if isinstance(layer.kernel, ZonalKernel):
        layer.kernel.variance = variance
    else:
        layer.kernel.outputscale = variance


class Factors(NamedTuple):
    """Of the noise variance, of S Sᵀ, and of the variance that inducing variables leave unexplained."""

    noise: float
    scales: float
    unexplained: float


@torch.no_grad()
def choose_factors(model: DeepGP, X: Tensor, y: Tensor) -> Factors | None:
    """The factors by which rows that a model was not trained on are predicted best; the model stays as it is.

    Args:
        model: The model.
        X: Inputs of the held-out rows, of which the first 1,000 are used.
        y: Their targets.

    Returns:
        The factors; None where noise is not Gaussian, or fixed.
    """
    if not has_free_noise(model):
        return None
    X, y = X[:MOST_ROWS], y[:MOST_ROWS]
    multiply = _dials(model)
    spreads = (NOISE_SPREAD, LAYER_SPREAD, LAYER_SPREAD)

    def loss(logarithms: NDArray[np.float64]) -> float:
        multiply(*map(exp, logarithms))
        prior = sum(0.5 * (value / sd) ** 2 for value, sd in zip(logarithms, spreads, strict=True))
        total = prior - len(X) * posterior_score(model, X, y) - log_prior(model).item()
        return total if isfinite(total) else inf

    start = np.vstack([np.zeros(3), -np.eye(3)])
    options: Any = {"initial_simplex": start, "maxfev": MOST_PASSES, "xatol": 0.02, "fatol": 0.1}
    before = {name: values.clone() for name, values in model.state_dict().items()}
    try:
        found = minimize(loss, start[0], method="Nelder-Mead", options=options).x
    finally:
        model.load_state_dict(before)
    return Factors(*np.exp(found).tolist())


def apply_factors(model: DeepGP, factors: Factors) -> None:
    """Multiplies the three variances of a model; the mean of each layer stays."""
    _dials(model)(*factors)


@torch.no_grad()
def _dials(model: DeepGP) -> Callable[[float, float, float], None]:
    """A function that sets noise, S Sᵀ and unexplained variance to given multiples of what they are now."""
    noise = model.likelihood.noise.item()
    layers = [
        (layer, free_variance(layer), layer.q.mean.clone(), layer.q.scale_tril.clone())
        for layer in model.gp_layers
        if layer.q.raw_scale_tril.requires_grad
    ]

    @torch.no_grad()
    def multiply(of_noise: float, of_scales: float, of_unexplained: float) -> None:
        set_noise(model, noise * of_noise)
        for layer, variance, m, S in layers:
            phi = 1.0 if variance is None else of_unexplained
            if variance is not None:
                set_variance(layer, variance * phi)
            layer.q.assign(m / phi**0.5, S * (of_scales / phi) ** 0.5)

    return multiply


@torch.no_grad()
def settle_temperature(model: DeepGP, X: Tensor, y: Tensor) -> None:
    """Chooses a temperature for classes by rows that a model was not trained on; nothing is done for others."""
    adapter = adapter_of(model.likelihood)
    if not adapter.has_temperature:
        return
    last = model.gp_layers[-1]
    variance = free_variance(last)
    if variance is None or last.prior_mean != "zero":
        return
    mean, spread, _ = model.paths(X, PATHS, generator=torch.Generator(X.device).manual_seed(SEED))  # [S, N, P]

    def loss(logarithm: float) -> float:
        set_variance(last, variance * exp(-2 * logarithm))
        factor, generator = exp(-logarithm), torch.Generator(X.device).manual_seed(SEED)
        paths = adapter.log_marginal(y, Latent(factor * mean, factor**2 * spread), generator)  # [S, N]
        fit = (paths.logsumexp(0) - log(len(paths))).sum().item() + log_prior(model).item()
        return 0.5 * (logarithm / NOISE_SPREAD) ** 2 - fit

    found = float(minimize_scalar(loss, bounds=(0.0, HOTTEST), method="bounded").x)
    set_variance(last, variance * exp(-2 * found) if loss(found) < loss(0.0) else variance)
