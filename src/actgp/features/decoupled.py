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

from dataclasses import replace
from typing import Any, Literal

import torch
from gpytorch.kernels import Kernel

from actgp import checks
from actgp.features.activated import ActivatedFeatures
from actgp.features.base import InducingFeatures
from actgp.features.mismatch import mismatches
from actgp.features.points import InducingPoints
from actgp.features.units import Shapes, Units
from actgp.persistence import savable
from actgp.sphere import lift

MeanFrom = Literal["both", "activations"]


@savable
class DecoupledFeatures(InducingFeatures):
    """M activations and K inducing points, in this order; q is independent between them.

    Args:
        activated: The activations.
        points: The inducing points, of as many inputs.
        mean_from: "both", or "activations" to leave the mean, and with it the network, to them alone.

    Example:
        >>> import actgp, torch
        >>> units, points = actgp.ActivatedFeatures(2, num_inducing=5), actgp.InducingPoints(torch.randn(3, 2))
        >>> actgp.DecoupledFeatures(units, points).num_inducing
        8
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

    def units(self, kernel: Kernel) -> Units:
        """The activations, and the points after them."""
        own = self.activated.units(kernel)
        points = lift(self.points.locations / own.lengthscale)
        shapes = Shapes(own.shapes.match, own.shapes.width, kernel)
        return replace(own, vectors=torch.cat([own.vectors, points]), shapes=shapes)

    def complaints(self, kernel: Kernel) -> list[str]:
        return mismatches(self.activated.match(kernel), self.activated.activation, beside_points=True)

    def extra_repr(self) -> str:
        return f"input_dim={self.input_dim}, num_activations={self.blocks[0]}, num_points={self.blocks[1]}"
