"""Functions drawn from a layer's posterior, by Matheron's rule (Wilson et al., 2020).

    f(x) = f_0(x) + Kfu Kuu⁻¹ (u − u_0),     u ~ q(u),   f_0 ~ prior,   u_0: the inducing variables of f_0

The prior is drawn with random zonal functions h_j, whose covariance is the kernel's (`kernels.random_shapes`). With e_n
for their energies,

    f_0(x) = √(v/F) Σ_j ε_j r h_j(ω_j · x̂),    ⟨f_0, g_m⟩ = (1/√(vF)) Σ_j ε_j Σ_n (a_n / k_n) e_jn P_n(ω_j · ŵ_m)

Only what u leaves unexplained is approximate: u itself is drawn exactly.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
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

    kernel: ZonalKernel
    features: InducingFeatures
    split: Callable[[Tensor], tuple[Tensor, Tensor | None]]
    shapes: RandomShapes
    frequencies: Float64[Tensor, "F d"]
    amplitudes: Float64[Tensor, "F P"]
    correction: Float64[Tensor, "M P"]
    beyond: Horizon | None
    form: Float64[Tensor, "P d d"] | None

    def __call__(self, h: Float[Tensor, "N H"]) -> Float[Tensor, "N P"]:
        """f(h_1), …, f(h_N)."""
        X, prior_mean = self.split(h)
        X64 = X.double()
        prior = _prior(self.kernel, self.shapes, self.frequencies, X64).T @ self.amplitudes  # [N, P]
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
    if not isinstance(layer.kernel, ZonalKernel):
        raise TypeError(
            f"functions are drawn with a zonal kernel, got {type(layer.kernel).__name__}; "
            "use actgp.ArcCosine or another of actgp's kernels"
        )
    kernel = copy.deepcopy(layer.kernel).requires_grad_(False)
    features = copy.deepcopy(layer.features).requires_grad_(False)
    split = copy.deepcopy(layer).requires_grad_(False).split  # of the layer as it is now
    beyond = None if layer.horizon is None else Horizon(kernel, layer.horizon)
    m, S, R = layer.q.mean.double(), layer.q.scale_tril.double(), layer.inverse_cholesky()

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, device=m.device, generator=generator)

    def draw() -> LayerFunction:
        frequencies = nn.functional.normalize(normal(num_features, kernel.dimension), dim=-1)  # [F, d]
        shapes = kernel.random_shapes(num_features, generator=generator)
        amplitudes = normal(num_features, len(S))  # [F, P]
        v = m + (S @ normal(len(S), len(m), 1)).squeeze(-1).T  # whitened u ~ q: [M, P]
        u0 = _inducing_of_prior(kernel, features, shapes, frequencies) @ amplitudes  # [M, P]
        correction = R.mT @ (v - R @ u0)  # Kuu⁻¹ (u − u_0) = L⁻ᵀ (v − L⁻¹ u_0)
        form = None if beyond is None else normal(len(S), kernel.dimension, kernel.dimension)
        return LayerFunction(kernel, features, split, shapes, frequencies, amplitudes, correction, beyond, form)

    return [draw() for _ in range(num_functions)]


def _prior(
    kernel: ZonalKernel, shapes: RandomShapes, frequencies: Float64[Tensor, "F d"], X: Float64[Tensor, "N D"]
) -> Float64[Tensor, "F N"]:
    """√(v/F) r h_j(ω_j · x̂)."""
    radius, direction = kernel.polar(X)
    scale = (kernel.variance.double() / len(frequencies)).sqrt()
    return scale * radius * shapes(frequencies @ direction.T)


def _inducing_of_prior(
    kernel: ZonalKernel, features: InducingFeatures, shapes: RandomShapes, frequencies: Float64[Tensor, "F d"]
) -> Float64[Tensor, "M F"]:
    """u_0 for unit amplitudes: ⟨√(v/F) r h_j(ω_j ·), g_m⟩, or the prior's functions at the inducing points."""
    if isinstance(features, DecoupledFeatures):
        parts = features.activated, features.points
        return torch.cat([_inducing_of_prior(kernel, part, shapes, frequencies) for part in parts])
    if isinstance(features, InducingPoints):
        return _prior(kernel, shapes, frequencies, features.locations.double()).T
    if not isinstance(features, ActivatedFeatures):
        raise TypeError(
            f"functions are drawn with activated features or inducing points, got {type(features).__name__}; use those"
        )
    match = features.match(kernel)
    k = torch.where(match.kernel_energies > 0, match.kernel_energies, 1.0)
    coefficients = match.shared / k * shapes.energies(features.num_levels)  # [F or 1, L]
    coefficients = coefficients[0] if len(coefficients) == 1 else coefficients
    scale = (kernel.variance.double() * len(frequencies)).rsqrt()
    directions = nn.functional.normalize(features.weights.double(), dim=-1)
    return scale * zonal_series(directions @ frequencies.T, coefficients, kernel.dimension)
