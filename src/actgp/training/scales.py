"""Noise and kernel variances, which are set between and after the stages: whether they may be, and how."""

from math import inf, isfinite

import torch
from gpytorch.constraints import Interval
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from actgp.kernels import ZonalKernel
from actgp.layers import GPLayer
from actgp.likelihoods import adapter_of
from actgp.models import DeepGP

SMALLEST_NOISE = 1e-12  # where there is no bound above zero, and the data have no noise


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
