"""Functions drawn from a layer's posterior, by Matheron's rule (Wilson et al., 2020).

    f(x) = f_0(x) + Kfu Kuu⁻¹ (u − u_0),     u ~ q(u),   f_0 ~ prior,   u_0: the inducing variables of f_0

The prior of a Matérn kernel of gpytorch's is drawn with plane waves (Rahimi and Recht, 2007), with spectral density of
Student's t with 2ν degrees of freedom,

    f_0(x) = √(2v/F) Σ_j ε_j cos(ω_j · x + b_j),    ω_j ~ t_2ν(0, ℓ⁻²),    b_j ~ U(0, 2π)

and that of a zonal kernel with random zonal functions h_j, whose covariance is the kernel's (`kernels.random_shapes`).
With e_n for their energies,

    f_0(x) = √(v/F) Σ_j ε_j r h_j(ω_j · x̂),    ⟨f_0, g_m⟩ = (1/√(vF)) Σ_j ε_j Σ_n (a_n / k_n) e_jn P_n(ω_j · ŵ_m)

Only what u leaves unexplained is approximate: u itself is drawn exactly.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from math import pi

import torch
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.features import ActivatedFeatures, DecoupledFeatures, InducingFeatures, InducingPoints
from actgp.kernels import ZonalKernel
from actgp.kernels.random_shapes import RandomShapes
from actgp.layers.gp_layer import GPLayer
from actgp.layers.horizon import Horizon
from actgp.sphere import zonal_series


@dataclass(frozen=True)
class LayerFunction:
    """One function from R^D to R^P, the same whenever and wherever it is called, differentiable in x."""

    kernel: Kernel
    features: InducingFeatures
    split: Callable[[Tensor], tuple[Tensor, Tensor | None]]
    prior: "ZonalPrior | WavePrior"
    amplitudes: Float64[Tensor, "F P"]
    correction: Float64[Tensor, "M P"]
    beyond: Horizon | None
    form: Float64[Tensor, "P d d"] | None

    def __call__(self, h: Float[Tensor, "N H"]) -> Float[Tensor, "N P"]:
        """f(h_1), …, f(h_N)."""
        X, prior_mean = self.split(h)
        X64 = X.double()
        prior = self.prior(X64).T @ self.amplitudes  # [N, P]
        f = prior + self.features.cross(self.kernel, X64).T @ self.correction
        if self.beyond is not None and self.form is not None:
            f = f + self.beyond.through(X64, self.form)
        return (f if prior_mean is None else prior_mean + f).to(h)


@dataclass(frozen=True)
class SampledFunction:
    """One function from the posterior of layers, [N, D] to [N], or to [N, P]; the same whenever it is called.

    Attributes:
        enter: What inputs go through first: checks, and a backbone.
        layers: A function drawn from each layer.
    """

    enter: Callable[[Tensor], Tensor]
    layers: tuple[LayerFunction, ...]

    def __call__(self, X: Tensor) -> Tensor:
        """f(x_1), …, f(x_N); differentiable in X."""
        h = self.enter(X)
        for layer in self.layers:
            h = layer(h)
        return checks.squeezed(h)


@torch.no_grad()
def draw_functions(
    layer: GPLayer, num_functions: int, num_features: int, generator: torch.Generator | None
) -> list[LayerFunction]:
    """Draws functions from q(f); training the layer afterwards does not change them."""
    kernel = copy.deepcopy(layer.kernel).requires_grad_(False)
    features = copy.deepcopy(layer.features).requires_grad_(False)
    split = copy.deepcopy(layer).requires_grad_(False).split  # of the layer as it is now
    beyond = None if layer.horizon is None else Horizon(kernel, layer.horizon)
    m, S, R = layer.q.mean.double(), layer.q.scale_tril.double(), layer.inverse_cholesky()

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, device=m.device, generator=generator)

    def draw() -> LayerFunction:
        prior = draw_prior(kernel, num_features, layer.features.input_dim, generator)
        amplitudes = normal(num_features, len(S))  # [F, P]
        v = m + (S @ normal(len(S), len(m), 1)).squeeze(-1).T  # whitened u ~ q: [M, P]
        u0 = prior.inducing(features) @ amplitudes  # [M, P]
        correction = R.mT @ (v - R @ u0)  # Kuu⁻¹ (u − u_0) = L⁻ᵀ (v − L⁻¹ u_0)
        form = None if beyond is None else normal(len(S), layer.features.input_dim + 1, layer.features.input_dim + 1)
        return LayerFunction(kernel, features, split, prior, amplitudes, correction, beyond, form)

    return [draw() for _ in range(num_functions)]


def draw_prior(
    kernel: Kernel, num_features: int, input_dim: int, generator: torch.Generator | None
) -> "ZonalPrior | WavePrior":
    """F random functions of unit amplitude, whose covariance is the kernel's."""
    device = next(kernel.parameters()).device

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, device=device, generator=generator)

    if isinstance(kernel, ZonalKernel):
        frequencies = nn.functional.normalize(normal(num_features, kernel.dimension), dim=-1)  # [F, d]
        return ZonalPrior(kernel, kernel.random_shapes(num_features, generator=generator), frequencies)
    if isinstance(kernel, ScaleKernel) and isinstance(base := kernel.base_kernel, MaternKernel):
        chi2 = normal(num_features, round(2 * base.nu)).square().mean(1, keepdim=True)  # χ²_2ν / 2ν
        waves = normal(num_features, input_dim) / chi2.sqrt() / base.lengthscale.double()
        phases = 2 * pi * torch.rand(num_features, 1, dtype=torch.float64, device=device, generator=generator)
        return WavePrior(waves, phases, kernel.outputscale.double())
    raise TypeError(
        f"functions are drawn with a zonal kernel, or gpytorch's MaternKernel in a ScaleKernel, got "
        f"{type(kernel).__name__}; use actgp.ArcCosine or another of actgp's kernels"
    )


@dataclass(frozen=True)
class WavePrior:
    """Plane waves: X ↦ √(2v/F) cos(ω_j · x + b_j)."""

    waves: Float64[Tensor, "F D"]
    phases: Float64[Tensor, "F 1"]
    variance: Float64[Tensor, ""]

    def __call__(self, X: Float64[Tensor, "N D"]) -> Float64[Tensor, "F N"]:
        """Their values."""
        return (2 * self.variance / len(self.waves)).sqrt() * (self.waves @ X.T + self.phases).cos()

    def inducing(self, features: InducingFeatures) -> Float64[Tensor, "M F"]:
        """Their inducing variables."""
        return self(_locations(features)).T


@dataclass(frozen=True)
class ZonalPrior:
    """Zonal functions: X ↦ √(v/F) r h_j(ω_j · x̂)."""

    kernel: ZonalKernel
    shapes: RandomShapes
    frequencies: Float64[Tensor, "F d"]

    def __call__(self, X: Float64[Tensor, "N D"]) -> Float64[Tensor, "F N"]:
        """Their values."""
        radius, direction = self.kernel.polar(X)
        scale = (self.kernel.variance.double() / len(self.frequencies)).sqrt()
        return scale * radius * self.shapes(self.frequencies @ direction.T)

    def inducing(self, features: InducingFeatures) -> Float64[Tensor, "M F"]:
        """⟨√(v/F) r h_j(ω_j ·), g_m⟩, or their values at inducing points."""
        if isinstance(features, DecoupledFeatures):
            return torch.cat([self.inducing(part) for part in (features.activated, features.points)])
        if not isinstance(features, ActivatedFeatures):
            return self(_locations(features)).T
        match = features.match(self.kernel)
        k = torch.where(match.kernel_energies > 0, match.kernel_energies, 1.0)
        coefficients = match.shared / k * self.shapes.energies(features.num_levels)  # [F or 1, L]
        coefficients = coefficients[0] if len(coefficients) == 1 else coefficients
        scale = (self.kernel.variance.double() * len(self.frequencies)).rsqrt()
        directions = nn.functional.normalize(features.weights.double(), dim=-1)
        return scale * zonal_series(directions @ self.frequencies.T, coefficients, self.kernel.dimension)


def _locations(features: InducingFeatures) -> Float64[Tensor, "M D"]:
    if not isinstance(features, InducingPoints):
        raise TypeError(
            f"functions are drawn with activated features or inducing points, got {type(features).__name__}; use those"
        )
    return features.locations.double()
