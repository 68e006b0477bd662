"""Noise and kernel variances, which are set between and after the stages: whether they may be, and how."""

from gpytorch.kernels import ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor

from actgp.kernels import ZonalKernel
from actgp.layers import GPLayer
from actgp.models import DeepGP


def has_free_noise(model: DeepGP) -> bool:
    """Whether there is Gaussian noise that may be changed."""
    return isinstance(model.likelihood, GaussianLikelihood) and model.likelihood.raw_noise.requires_grad


def set_noise(model: DeepGP, noise: float) -> None:
    """Sets the noise variance, within its bound."""
    lower = float(model.likelihood.noise_covar.raw_noise_constraint.lower_bound)
    model.likelihood.noise = max(noise, 1.001 * lower)  # at the bound itself there is no gradient


def free_variance(layer: GPLayer) -> Tensor | None:
    """The variance of a layer's kernel, if it has one that may be changed."""
    kernel = layer.kernel
    if isinstance(kernel, ZonalKernel) and kernel.raw_variance.requires_grad:
        return kernel.variance
    if isinstance(kernel, ScaleKernel) and kernel.raw_outputscale.requires_grad:
        return kernel.outputscale
    return None


def set_variance(layer: GPLayer, variance: Tensor) -> None:
    """Sets the variance of a layer's kernel."""
    if isinstance(layer.kernel, ZonalKernel):
        layer.kernel.variance = variance
    else:
        layer.kernel.outputscale = variance
