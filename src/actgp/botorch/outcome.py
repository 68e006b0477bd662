"""The deep GP of one outcome: hidden layers that bend the inputs, and on top an exact GP.

    h_0 = 2x − 1,   h_ℓ = h_{ℓ−1} + A_ℓ(h_{ℓ−1}) v_ℓ,   v_ℓ ~ q(v_ℓ),   A = Kfu L⁻ᵀ
    f(x) = c + g((h_{L−1} + 1) / 2),   g ~ GP(0, k),   y = f(x) + noise

A hidden layer is a `GPLayer` around the identity, without the part of its prior that its M inducing variables leave
unexplained: then one draw of v is one function of x, a residual network with random output weights. Given v, g is
integrated out exactly, and nothing is assumed about it:

    log p(y) ≥ E_q(v)[log N(y; c, k(H, H) + noise)] − Σ_ℓ KL(q(v_ℓ) ‖ p(v_ℓ)),   H: where v takes the rows

This is the bound of Salimbeni and Deisenroth (2017) with the last layer's q(u | v) at its best for every v.
"""

from collections.abc import Sequence
from math import log
from typing import cast

import torch
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
    get_gaussian_likelihood_with_lognormal_prior,
)
from gpytorch import Module
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import ConstantMean
from gpytorch.priors import NormalPrior
from jaxtyping import Float64
from torch import Tensor, nn
from torch.quasirandom import SobolEngine

from actgp.features import InducingPoints, Whitening, whitening
from actgp.kernels import ArcCosine
from actgp.layers import GPLayer, kernel_products

BEND_SPREAD, LENGTHSCALE_SPREAD = 1.0, 0.5  # of the logarithms of `bend` and of lengthscales, under their priors

Weights = tuple[Float64[Tensor, "S M D"], ...]


class OutcomeGP(Module):
    """A deep GP of one outcome.

    Args:
        layers: The hidden layers, each with as many outputs as inputs.
        covar_module: k, the kernel of the last layer, on the unit cube.
        likelihood: A `GaussianLikelihood`, or a `FixedNoiseGaussianLikelihood`.
        mean_module: c.
    """

    def __init__(
        self,
        layers: Sequence[GPLayer],
        covar_module: Kernel,
        likelihood: GaussianLikelihood | FixedNoiseGaussianLikelihood,
        mean_module: ConstantMean,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.covar_module = covar_module
        self.likelihood = likelihood
        self.mean_module = mean_module

    @property
    def hidden_layers(self) -> list[GPLayer]:
        """All layers but the last."""
        return [cast("GPLayer", layer) for layer in self.layers]

    def one_layer(self) -> "OutcomeGP":
        """The exact GP that is its last layer; the parts are shared."""
        return OutcomeGP((), self.covar_module, self.likelihood, self.mean_module)

    @property
    def noise(self) -> Float64[Tensor, " #N"]:
        """The noise variance of each training row, or that of all rows."""
        noise: Tensor = self.likelihood.noise
        return noise

    def weights(self, num_paths: int, generator: torch.Generator) -> Weights:
        """v = m + S ε of each hidden layer; the second half of ε mirrors the first."""
        drawn = []
        for layer in self.hidden_layers:
            M, D = layer.q.mean.shape
            half = torch.randn(-(-num_paths // 2), M, D, dtype=torch.float64, generator=generator)
            noise = torch.cat([half, -half])[:num_paths].to(layer.q.mean)
            drawn.append(layer.q.mean + torch.einsum("pmk,skp->smp", layer.q.scale_tril, noise))
        return tuple(drawn)

    def whitenings(self) -> tuple[Whitening, ...]:
        """What does not depend on x of each hidden layer."""
        return tuple(whitening(layer.features, layer.kernel) for layer in self.hidden_layers)

    def bent(
        self, X: Float64[Tensor, "#S N D"], weights: Weights, found: tuple[Whitening, ...]
    ) -> Float64[Tensor, "S N D"]:
        """Where each path takes inputs: the same for all paths, or some for each."""
        h = 2 * X - 1
        for layer, v, w in zip(self.hidden_layers, weights, found, strict=True):
            A = kernel_products(layer.features, layer.kernel, h.flatten(0, 1), w.R, w)[0]
            h = h + A.unflatten(0, h.shape[:2]) @ v
        return (h + 1) / 2

    def kl(self) -> Float64[Tensor, ""]:
        """Σ KL(q(v) ‖ p(v)) of the hidden layers."""
        return sum((layer.kl() for layer in self.hidden_layers), torch.zeros(()).to(self.mean_module.constant))


def outcome_gp(
    input_dim: int,
    num_layers: int,
    num_inducing: int,
    bend: float,
    covar_module: Kernel | None,
    noise: Float64[Tensor, " N"] | None,
    seed: int,
) -> OutcomeGP:
    """A deep GP that begins as the exact GP of BoTorch's `SingleTaskGP`, a little bent.

    Inputs are in [−1, 1] for hidden layers; `bend` is the variance of these to begin with, and the median of its prior.
    """
    kernel = get_covar_module_with_dim_scaled_prior(input_dim) if covar_module is None else covar_module
    likelihood = (
        get_gaussian_likelihood_with_lognormal_prior() if noise is None else FixedNoiseGaussianLikelihood(noise)
    )
    hidden = [_hidden_layer(input_dim, num_inducing, bend, seed + i) for i in range(num_layers - 1)]
    return OutcomeGP(hidden, kernel, likelihood, ConstantMean()).double()


def _hidden_layer(input_dim: int, num_inducing: int, bend: float, seed: int) -> GPLayer:
    kernel = ArcCosine(input_dim)
    kernel.variance = bend
    kernel.register_prior("log_variance_prior", NormalPrior(log(bend), BEND_SPREAD), "raw_variance")
    kernel.register_prior("log_lengthscale_prior", NormalPrior(0.0, LENGTHSCALE_SPREAD), "raw_lengthscale")
    points = SobolEngine(input_dim, scramble=True, seed=seed).draw(num_inducing, dtype=torch.float64)
    return GPLayer(kernel, InducingPoints(2 * points - 1), input_dim, "identity")
