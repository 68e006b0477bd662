"""Functions drawn from a layer's posterior, by Matheron's rule (Wilson et al., 2020).

    f(x) = f_0(x) + Kfu Kuu⁻¹ (u − u_0),     u ~ q(u),   f_0 ~ prior,   u_0: the inducing variables of f_0

The prior is drawn with random zonal features: with ω uniform on the sphere and h(t) = Σ √(k_n N_n) P_n(t),
E[h(ω·x̂) h(ω·x̂')] = Σ k_n P_n(x̂·x̂'), because ∫ P_n(ω·x̂) P_m(ω·x̂') dω = δ_nm P_n(x̂·x̂') / N_n. Hence

    f_0(x) = √(v/F) Σ_j ε_j r h(ω_j · x̂),    ⟨f_0, g_m⟩ = (1/√(vF)) Σ_j ε_j Σ_n a_n √(N_n/k_n) P_n(ω_j · ŵ_m)

Only what u leaves unexplained is approximate: u itself is drawn exactly.
"""

import copy
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp.features import ActivatedFeatures, DecoupledFeatures, InducingFeatures, InducingPoints
from actgp.kernels import ZonalKernel
from actgp.layers.gp_layer import GPLayer
from actgp.layers.horizon import Horizon
from actgp.sphere import num_harmonics, zonal_series

PRIOR_LEVELS = 30


@dataclass(frozen=True)
class LayerFunction:
    """One function from R^D to R^P, the same whenever and wherever it is called, differentiable in x."""

    kernel: ZonalKernel
    features: InducingFeatures
    skip: bool
    frequencies: Float64[Tensor, "F d"]
    amplitudes: Float64[Tensor, "F P"]
    correction: Float64[Tensor, "M P"]
    beyond: Horizon | None
    form: Float64[Tensor, "P d d"] | None

    def __call__(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
        """f(x_1), …, f(x_N)."""
        X64 = X.double()
        prior = _prior(self.kernel, self.features, self.frequencies, X64).T @ self.amplitudes  # [N, P]
        f = prior + self.features.cross(self.kernel, X64).T @ self.correction
        if self.beyond is not None and self.form is not None:
            f = f + self.beyond.through(X64, self.form)
        return (X64 + f if self.skip else f).to(X)


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
    beyond = None if layer.horizon is None else Horizon(kernel, layer.horizon)
    m, S, R = layer.q.means().double(), layer.q.scale_tril.double(), layer.inverse_cholesky()

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, device=m.device, generator=generator)

    def draw() -> LayerFunction:
        frequencies = nn.functional.normalize(normal(num_features, kernel.dimension), dim=-1)  # [F, d]
        amplitudes = normal(num_features, len(S))  # [F, P]
        v = m + (S @ normal(len(S), len(m), 1)).squeeze(-1).T  # whitened u ~ q: [M, P]
        u0 = _inducing_of_prior(kernel, features, frequencies) @ amplitudes  # [M, P]
        correction = R.mT @ (v - R @ u0)  # Kuu⁻¹ (u − u_0) = L⁻ᵀ (v − L⁻¹ u_0)
        form = None if beyond is None else normal(len(S), kernel.dimension, kernel.dimension)
        skip = layer.prior_mean == "identity"
        return LayerFunction(kernel, features, skip, frequencies, amplitudes, correction, beyond, form)

    return [draw() for _ in range(num_functions)]


def _prior(
    kernel: ZonalKernel, features: InducingFeatures, frequencies: Float64[Tensor, "F d"], X: Float64[Tensor, "N D"]
) -> Float64[Tensor, "F N"]:
    """√(v/F) r h(ω_j · x̂)."""
    d, levels = kernel.dimension, _levels(features)
    radius, direction = kernel.polar(X)
    h = (kernel.energies(d, levels) * _counts(d, levels)).sqrt()
    scale = (kernel.variance.double() / len(frequencies)).sqrt()
    return scale * radius * zonal_series(frequencies @ direction.T, h, d)


def _inducing_of_prior(
    kernel: ZonalKernel, features: InducingFeatures, frequencies: Float64[Tensor, "F d"]
) -> Float64[Tensor, "M F"]:
    """u_0 for unit amplitudes: ⟨√(v/F) r h(ω_j ·), g_m⟩, or the prior features at the inducing points."""
    if isinstance(features, DecoupledFeatures):
        parts = features.activated, features.points
        return torch.cat([_inducing_of_prior(kernel, part, frequencies) for part in parts])
    if isinstance(features, InducingPoints):
        return _prior(kernel, features, frequencies, features.locations.double()).T
    if not isinstance(features, ActivatedFeatures):
        raise TypeError(
            f"functions are drawn with activated features or inducing points, got {type(features).__name__}; use those"
        )
    match, d = features.match(kernel), kernel.dimension
    k = torch.where(match.kernel_energies > 0, match.kernel_energies, 1.0)
    coefficients = match.shared * (_counts(d, features.num_levels) / k).sqrt()
    scale = (kernel.variance.double() * len(frequencies)).rsqrt()
    directions = nn.functional.normalize(features.weights.double(), dim=-1)
    return scale * zonal_series(directions @ frequencies.T, coefficients, d)


def _levels(features: InducingFeatures) -> int:
    """Levels of the prior that are drawn: at least those which the features see."""
    if isinstance(features, DecoupledFeatures):
        features = features.activated
    return max(PRIOR_LEVELS, features.num_levels) if isinstance(features, ActivatedFeatures) else PRIOR_LEVELS


def _counts(dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
    return torch.tensor([float(num_harmonics(n, dimension)) for n in range(num_levels)], dtype=torch.float64)
