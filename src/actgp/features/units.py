"""Features under a zonal kernel, as hidden units: one formula for every covariance.

Each input x, inducing point z and activated feature g_m is a direction on the sphere and an amplitude,

    x̃ = [x / ℓ, 1] = r x̂,      Cov(p, q) = a_p a_q φ_pq(p̂ · q̂)

| | direction | amplitude a | φ with an input or a point | φ with a feature |
|---|---|---|---|---|
| input x, point z | x̂, ẑ | √v r | s, the kernel's shape | σ̃, the activation (eq. 12) |
| feature g_m | ŵ_m | 1 / √v | σ̃ | κ (eq. 11) |

so that k(x, x') = v r r' s; for features Kuf = r σ̃(ŵ · x̂) and Kuu = κ / v, and for points Kuf = v r_z r s(ẑ · x̂).
Amplitudes of u drop out of what is whitened: with Φ = L Lᵀ for the matrix of φ between them, and Kuu = D Φ D,

    A = Kfu (D L)⁻ᵀ = √v r φ(X̂ Ŵᵀ) L⁻ᵀ
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp.features.match import SpectralMatch
from actgp.kernels import ZonalKernel
from actgp.sphere import lift, project


@dataclass(frozen=True)
class Shapes:
    """φ with an input, for each unit: the first `width` of them are activations, the others the shape of a kernel.

    Attributes:
        match: The spectra of activation and kernel; None where `width` is 0.
        width: How many units are activations.
        kernel: The kernel of the others, which are inducing points; None where there are none.
    """

    match: SpectralMatch | None
    width: int
    kernel: ZonalKernel | None

    @property
    def fixed(self) -> bool:
        """Whether no parameter of them is learnt, so that values and slopes are functions of t alone."""
        return not (self.match is not None and self.match.learnt) and not (self.kernel and self.kernel.learns_shape)

    def __call__(self, t: Float[Tensor, "N M"]) -> Float[Tensor, "N M"]:
        """φ_m(t), differentiable any number of times."""
        parts = []
        if self.match is not None:
            parts.append(self.match.sigma_at(t[:, : self.width]))
        if self.kernel is not None:
            parts.append(self.kernel.shape_within(t[:, self.width :]))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def with_slope(self, t: Float[Tensor, "N M"]) -> tuple[Float[Tensor, "N M"], Float[Tensor, "N M"]]:
        """φ_m(t) and φ_m'(t), without gradients, for shapes that are fixed."""
        parts = []
        if self.match is not None:
            parts.append(self.match.sigma(t.dtype, t.device).with_slope(t[:, : self.width]))
        if self.kernel is not None:
            parts.append(self.kernel.shape_and_slope(t[:, self.width :]))
        if len(parts) == 1:
            return parts[0]
        value, slope = (torch.cat(pair, dim=1) for pair in zip(*parts, strict=True))
        return value, slope


@dataclass(frozen=True)
class Units:
    """M hidden units, or a stack of L such layers.

    Attributes:
        lengthscale: ℓ.
        variance: v, of the kernel.
        vectors: w_m, then z̃_m = [z_m / ℓ, 1]; once they are `normalised`, the directions ŵ_m and ẑ_m.
        shapes: φ_m.
    """

    lengthscale: Float[Tensor, "*L 1 D"]
    variance: Float[Tensor, "*L"]
    vectors: Float[Tensor, "*L M d"]
    shapes: Shapes

    def to(self, dtype: torch.dtype) -> "Units":
        """The same in another precision."""
        return Units(self.lengthscale.to(dtype), self.variance.to(dtype), self.vectors.to(dtype), self.shapes)

    def normalised(self) -> "Units":
        """The same in double precision, with directions in place of vectors."""
        vectors = self.vectors.double()
        return replace(self, vectors=vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True))

    def amplitudes(self) -> Float[Tensor, " M"]:
        """√v a_m, by which Kuf is multiplied, from vectors that are not normalised: 1 for features, v r for points."""
        radii = torch.linalg.vector_norm(self.vectors[self.shapes.width :].double(), dim=-1)
        return torch.cat([radii.new_ones(self.shapes.width), self.variance.double() * radii])

    def Phi(self) -> tuple[Float64[Tensor, "*L _ _"], ...]:
        """φ between the units themselves, from their directions; with points beside activations, by blocks.

        Returns:
            The matrix, or the blocks of activated features, of points with them, and of points.
        """
        width, match, kernel = self.shapes.width, self.shapes.match, self.shapes.kernel
        w, z = self.vectors[..., :width, :], self.vectors[..., width:, :]
        uu = () if match is None else (match.kappa_at(w @ w.mT),)
        vu = () if match is None or kernel is None else (match.sigma_at(z @ w.mT),)
        vv = () if kernel is None else (kernel.shape_within(z @ z.mT, coincide=True),)
        return uu + vu + vv


def through_units(
    X: Float[Tensor, "N D"], units: Units, B: Float[Tensor, "K M"]
) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
    """√v r φ(X̂ Ŵᵀ) Bᵀ and k(x, x): for B = L⁻¹ it is A, for B = (L⁻ᵀ m)ᵀ a layer of a network."""
    scaled = units.variance.sqrt() * B
    return units_product(units.shapes, X, units.lengthscale, units.vectors, units.variance, scaled)


def units_product(
    shapes: Shapes, X: Tensor, lengthscale: Tensor, directions: Tensor, variance: Tensor, B: Tensor
) -> tuple[Tensor, Tensor]:
    """(r φ(X̂ Ŵᵀ)) Bᵀ and v r²."""
    radius, x = project(lift(X / lengthscale))
    hidden = radius.unsqueeze(-1) * shapes(x @ directions.T)
    return hidden @ B.T, variance * radius.square()
