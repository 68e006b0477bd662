"""Calibration after stage 2: rows that were held out of it choose how wide predictions are, while means stay.

Gaussian noise: as long as m and S move, the noise has to cover errors that they have yet to remove, and it follows them
slowly; where data have hardly any noise, stage 2 ends with too much of it. The same is true of the other two parts of a
predictive variance, S Sᵀ and the part k(x, x) − Σ A² of the prior that inducing variables leave unexplained. Three
factors are chosen, the same for all layers: of the noise variance, of S Sᵀ, and φ of the unexplained part.

φ multiplies the kernel's variance v. Since A ∝ √v, dividing m and S by √φ keeps the mean A m and the product A S. A
layer whose kernel has no free variance has φ = 1; one whose S is frozen is left alone.

Classes: a temperature T, by which all latent functions are divided (Guo et al., 2017). A last layer with the kernel
variance v / T² and the same q is f / T. T is never below one: rows that are like the training data may make a model
less sure, but say nothing of inputs that are unlike them.

Few rows say little. So each choice maximises the log density of the rows plus that of a prior, under which the
logarithms of the factors, or of T, are normal about zero.

Targets that are rounded, such as marks and counts, are a case apart: a density may be as high as it likes at a whole
number, and noise that shrinks around those that happen to be met is worth any number of nats. A value that was rounded
to steps of δ is off by up to δ/2, with variance δ²/12: less noise than that cannot be learnt from it. Not all targets
with few values are rounded; a simulation may have been run for fifty settings of what is to be inferred. So noise is
bounded only if the network cannot tell neighbouring values apart: if it is off by more than δ/2 on more rows than
outliers account for.
"""

import copy
import importlib
from collections.abc import Callable
from math import exp, inf, isfinite, log
from typing import Any, NamedTuple

import numpy as np
import torch
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.kernels import ScaleKernel
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from actgp.kernels import ZonalKernel
from actgp.layers import GPLayer
from actgp.likelihoods import Latent, adapter_of
from actgp.models import DeepGP
from actgp.training import ranks
from actgp.training.data import Batches
from actgp.training.loader import ROWS_TO_SUM, Batch
from actgp.training.objectives import SEED, log_prior, posterior_score

SMALLEST_NOISE = 1e-12  # where there is no bound above zero, and the data have no noise
NOISE_SPREAD, LAYER_SPREAD = 1.0, 0.3  # standard deviations of the prior: of noise and temperature, of the other two
MOST_ROWS, MOST_PASSES = 1_000, 100  # how many rows go through the model how often, to choose three factors
HOTTEST = 5.0  # the largest logarithm of a temperature
PATHS = 50  # sampled to choose a temperature
REPEATED = 0.5  # the part of the values that occur again, from which on targets are taken for rounded
CONFUSED = 0.2  # the part of the rows that are nearer to another value, from which on these cannot be told apart
ROUND_OFF = 8  # units in the last place of the largest value: values that are closer are the same


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
    if raw_variance(layer) is None:
        return None
    return kernel.variance if isinstance(kernel, ZonalKernel) else kernel.outputscale


def raw_variance(layer: GPLayer) -> Tensor | None:
    """The parameter of it, before constraints."""
    kernel = layer.kernel
    if isinstance(kernel, ZonalKernel) and _is_free(kernel.raw_variance, kernel.raw_variance_constraint):
        return kernel.raw_variance
    if isinstance(kernel, ScaleKernel) and _is_free(kernel.raw_outputscale, kernel.raw_outputscale_constraint):
        return kernel.raw_outputscale
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
    N, rows = len(X), ranks.even_shard(X, y)
    multiply = _multiplier(model)
    spreads = (NOISE_SPREAD, LAYER_SPREAD, LAYER_SPREAD)

    def loss(logarithms: NDArray[np.float64]) -> float:
        multiply(*map(exp, logarithms))
        prior = sum(0.5 * (value / sd) ** 2 for value, sd in zip(logarithms, spreads, strict=True))
        total = prior - N * posterior_score(model, *rows) - log_prior(model).item()
        return total if isfinite(total) else inf

    start = np.vstack([np.zeros(3), -np.eye(3)])
    options: Any = {"initial_simplex": start, "maxfev": MOST_PASSES, "xatol": 0.02, "fatol": 0.1}
    before = {name: values.clone() for name, values in model.state_dict().items()}
    try:
        found = _optimize().minimize(loss, start[0], method="Nelder-Mead", options=options).x
    finally:
        model.load_state_dict(before)
    return ranks.from_first(lambda: Factors(*np.exp(found).tolist()))


def _optimize() -> Any:
    """scipy.optimize, imported only when it is used."""
    return importlib.import_module("scipy.optimize")


def apply_factors(model: DeepGP, factors: Factors) -> None:
    """Multiplies the three variances of a model; the mean of each layer stays."""
    _multiplier(model)(*factors)


@torch.no_grad()
def _multiplier(model: DeepGP) -> Callable[[float, float, float], None]:
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
def calibrate_temperature(model: DeepGP, X: Tensor, y: Tensor) -> None:
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

    found = float(_optimize().minimize_scalar(loss, bounds=(0.0, HOTTEST), method="bounded").x)
    set_variance(last, variance * exp(-2 * found) if loss(found) < loss(0.0) else variance)


@torch.no_grad()
def bound_noise_by_rounding(model: DeepGP, batches: Batches, held_out: Batch | None) -> None:
    """Raises the lower bound of Gaussian noise to the variance of rounding, if the network's errors say so.

    Left alone are noise that is frozen or has a constraint other than gpytorch's `GreaterThan`, and models whose mean
    has not been trained.

    Args:
        model: The model after stage 1.
        batches: What it is trained on.
        held_out: Rows to measure the network's errors on, if there are any: it may have overfitted the others.
    """
    last = model.gp_layers[-1]
    if not has_free_noise(model) or (last.prior_mean == "zero" and not last.q.mean.any()):
        return
    noise = model.likelihood.noise_covar
    targets = ranks.gathered(torch.cat([y for _, y in batches.sample(ROWS_TO_SUM)]))
    step = min(rounding_step(column) for column in targets.T)  # outputs share their noise: the finest counts
    if step == 0.0 or type(noise.raw_noise_constraint) is not GreaterThan:
        return
    rows = batches.sample(ROWS_TO_SUM) if held_out is None else (held_out,)
    errors = ranks.gathered(torch.cat([(model.mean(X).reshape(y.shape) - y).abs() for X, y in rows]))
    if (errors > step / 2).double().mean() > CONFUSED:
        before = model.likelihood.noise.item()
        own = copy.deepcopy(noise.raw_noise_constraint)  # other models may share it
        own.lower_bound.clamp_min_(step**2 / 12)
        noise.register_constraint("raw_noise", own)
        set_noise(model, before)


def rounding_step(y: Float[Tensor, " N"]) -> float:
    """δ: how far the nearest other value is from that of half of the rows; 0 where most values occur only once."""
    y = y.sort().values
    same = ROUND_OFF * torch.finfo(y.dtype).eps * y.abs().max()
    is_new = torch.cat([torch.ones_like(y[:1], dtype=torch.bool), y.diff() > same])
    values, counts = y[is_new], is_new.cumsum(0).bincount()[1:]
    if len(values) < 2 or (counts > 1).double().mean() < REPEATED:
        return 0.0
    gaps = values.diff()
    nearest = torch.minimum(torch.cat([gaps[:1], gaps]), torch.cat([gaps, gaps[-1:]]))
    return nearest.repeat_interleave(counts).median().item()
