"""Activations for the network, inducing points for what they leave: orthogonal decoupling (Tiao et al., ICML 2023).

With u_m = ⟨f, g_m⟩ and v_k = f(z_k), the covariance of both is

    K = [ Kuu  Kuv ]      Kuv[m, k] = g_m(z_k), a forward pass
        [ Kvu  Kvv ]

and its Cholesky factor whitens u first: L = [[L_u, 0], [Kvu L_u⁻ᵀ, L_s]] with L_s L_sᵀ = Kvv − Kvu Kuu⁻¹ Kuv, the
residual kernel at the points. So the whitened v belong to the part of f that is orthogonal to the activations,

    f = g + h,   A = [A_u, A_v],   A_v = (Kfv − A_u(X) A_u(Z)ᵀ) L_s⁻ᵀ,

and a q that is independent between the two blocks is the decoupled one. The first block is that of the activations
alone, up to the jitter: adding points, or moving them, leaves the network as it is where their means are zero.
"""

from typing import Any, Literal

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor

from actgp import checks
from actgp.features.activated import ActivatedFeatures
from actgp.features.base import InducingFeatures, Whitening
from actgp.features.decoupled_whitening import Inputs, decoupled_whitenings
from actgp.features.match import SpectralMatch
from actgp.features.points import InducingPoints, is_zonal
from actgp.features.units import Shapes, UnitInputs
from actgp.features.whitening import magnifies
from actgp.kernels import ZonalKernel
from actgp.linalg import inverse_cholesky
from actgp.persistence import savable

MeanFrom = Literal["both", "activations"]


@savable
class DecoupledFeatures(InducingFeatures):
    """M activations and K inducing points, in this order; q is independent between them.

    Args:
        activated: The activations.
        points: The inducing points, of as many inputs.
        mean_from: "both", or "activations" to leave the mean, and with it the network, to them alone.
    """

    def __init__(self, activated: ActivatedFeatures, points: InducingPoints, mean_from: MeanFrom = "both") -> None:
        super().__init__()
        self.mean_from: MeanFrom = checks.choice(mean_from, "mean_from", ("both", "activations"))
        if activated.input_dim != points.input_dim:
            raise ValueError(
                f"activations and points must have the same input_dim, got {activated.input_dim} and "
                f"{points.input_dim}; build both with the number of columns of X"
            )
        self.activated, self.points = activated, points

    def config(self) -> dict[str, Any]:
        return {"activated": self.activated, "points": self.points, "mean_from": self.mean_from}

    @property
    def num_inducing(self) -> int:
        return sum(self.blocks)

    @property
    def blocks(self) -> tuple[int, ...]:
        return self.activated.num_inducing, self.points.num_inducing

    @property
    def num_means(self) -> int:
        return self.num_inducing if self.mean_from == "both" else self.activated.num_inducing

    @property
    def input_dim(self) -> int:
        return self.activated.input_dim

    def fixed_match(self, kernel: Kernel) -> SpectralMatch | None:
        return self.activated.fixed_match(kernel) if is_zonal(kernel) else None

    def Kuu(self, kernel: Kernel) -> Float64[Tensor, "M M"]:
        Kuv = self.activated.cross(kernel, self.points.locations.double())  # [M, K]
        above = torch.cat([self.activated.Kuu(kernel), Kuv], dim=1)
        return torch.cat([above, torch.cat([Kuv.T, self.points.Kuu(kernel)], dim=1)])

    def cross(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        return torch.cat([self.activated.cross(kernel, X), self.points.cross(kernel, X)])

    def whitening(self, kernel: Kernel, dtype: torch.dtype = torch.float64) -> Whitening:
        if (match := self.fixed_match(kernel)) is not None:
            layer = self.parameters_of(kernel)
            ((directions, R, amplitudes),) = decoupled_whitenings((layer,), kernel, match, dtype)
            return Whitening(R, directions, match, layer.variance, amplitudes)
        own = self.activated.whitening(kernel)
        A, _ = self.activated.through(kernel, self.points.locations.double(), own.R, own)  # A_u(Z): [K, M]
        Kvv = self.points.Kuu(kernel)
        R = inverse_cholesky(Kvv - A @ A.T)  # L_s⁻¹
        # L⁻¹ = [[R_u, 0], [−R_s A R_u, R_s]]
        above = torch.nn.functional.pad(own.R, (0, len(R)))
        whole = torch.cat([above, torch.cat([-R @ A @ own.R, R], dim=1)])
        exact = magnifies(own.R.detach()) or magnifies(R.detach(), Kvv.detach().diagonal().mean().sqrt())
        return Whitening(whole if exact else whole.to(dtype), own.directions, own.match, own.variance)

    def parameters_of(self, kernel: ZonalKernel) -> Inputs:
        """What their whitening depends on."""
        return Inputs(self.activated.weights, self.points.locations, kernel.lengthscale, kernel.variance)

    def unit_inputs(self, kernel: Kernel, B: Float[Tensor, "K M"], whitening: Whitening) -> UnitInputs | None:
        _, directions, match, variance, amplitudes, _ = whitening
        if directions is None or match is None or variance is None or amplitudes is None:
            return None
        own, others = B.split(self.blocks, dim=1)
        scaled = torch.cat([own, others * amplitudes.to(B)], dim=1)
        shapes = Shapes(match.sigma(B.dtype, B.device), self.blocks[0], kernel)
        return UnitInputs(kernel.lengthscale.to(B), directions.to(B), variance.to(B), scaled, shapes)

    def through(
        self, kernel: Kernel, X: Float[Tensor, "N D"], B: Float[Tensor, "K M"], whitening: Whitening
    ) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
        if whitening.amplitudes is not None:
            return super().through(kernel, X, B, whitening)
        own, others = B.split(self.blocks, dim=1)
        A, prior = self.activated.through(kernel, X, own.contiguous(), whitening)
        return A + self.points.cross(kernel, X).T @ others.T, prior

    def complaints(self, kernel: Kernel) -> list[str]:
        return self.activated.complaints_beside(self.points.num_inducing, kernel)

    def extra_repr(self) -> str:
        return f"input_dim={self.input_dim}, num_activations={self.blocks[0]}, num_points={self.blocks[1]}"
