"""Activated inducing variables, u_m = ⟨f, g_m⟩ with g_m(x) = r σ̃(ŵ_m · x̂): the paper's section 4.

    Kuf[m, i]  = r_i Σ_n a_n P_n(ŵ_m · x̂_i)            the hidden activations (eq. 12)
    Kuu[m, m'] = (1/v) Σ_n c_n P_n(ŵ_m · ŵ_m')          c_n = a_n² / k_n     (eq. 11)

with n < Ñ and the same levels in both, which makes Kfu Kuu⁻¹ Kuf ≤ Kff for every truncation.
"""

from math import inf
from typing import Any, ClassVar

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.activations import Activation
from actgp.activations import activation as activation_of
from actgp.features.base import InducingFeatures, Inverse, magnification
from actgp.features.match import SpectralMatch, spectral_match
from actgp.features.units import Shapes, Units
from actgp.kernels import ZonalKernel
from actgp.linalg import inverse_cholesky
from actgp.persistence import Sizes, savable

LARGEST_ENERGY = 1e30  # beyond it a float32 model would overflow
LARGEST_NORM = 1e12  # κ(1), beyond which products of L⁻ᵀ, L⁻¹ and κ' leave the range of float32
OVERSHOOT_WARNING = 10.0
GRID = 101  # points at which max |σ| is sought


@savable
class ActivatedFeatures(InducingFeatures):
    """Inducing variables whose covariance with f is a layer of hidden units.

    Args:
        input_dim: D, the number of inputs.
        num_inducing: M, the number of inducing variables, which is the number of hidden units.
        activation: An actgp activation, or its name.
        num_levels: Ñ, the number of levels of the activation that are kept.
        generator: Draws the initial directions, uniform on the sphere.

    Attributes:
        weights: W, [M, d], learnable: the pre-activation weights, bias last. Only their directions matter.
    """

    SIZES: ClassVar[Sizes] = {"weights": ("num_inducing", "input_dim + 1")}

    def __init__(
        self,
        input_dim: int,
        num_inducing: int,
        activation: str | Activation = "softplus",
        num_levels: int = 20,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self._input_dim = checks.integer(input_dim, "input_dim", minimum=1)
        M = checks.integer(num_inducing, "num_inducing", minimum=1)
        self.num_levels = checks.integer(num_levels, "num_levels", minimum=1)
        self.activation = activation_of(activation)
        self.weights = nn.Parameter(nn.functional.normalize(torch.randn(M, self.dimension, generator=generator)))
        largest = self.activation.energies(self.dimension, self.num_levels).abs().max().item()
        if largest > LARGEST_ENERGY:
            raise ValueError(
                f"the activation's energies must stay below {LARGEST_ENERGY:.0e}, got {largest:.2g} with "
                f"{self.num_levels} levels in dimension {self.dimension}; lower num_levels, or choose a smoother one"
            )

    def config(self) -> dict[str, Any]:
        return {"activation": self.activation, "num_levels": self.num_levels}

    @property
    def num_inducing(self) -> int:
        return self.weights.shape[0]

    @property
    def input_dim(self) -> int:
        return self._input_dim

    @property
    def dimension(self) -> int:
        """The dimension d = D + 1 of the space that holds the sphere."""
        return self._input_dim + 1

    @property
    def directions(self) -> Float[Tensor, "M d"]:
        """ŵ_m = w_m / ‖w_m‖."""
        return nn.functional.normalize(self.weights, dim=-1)

    def match(self, kernel: Kernel) -> SpectralMatch:
        """The kernel's and the activation's spectra side by side."""
        return spectral_match(self._zonal(kernel), self.activation, self.dimension, self.num_levels)

    def overshoots(self, num_levels: int) -> Float64[Tensor, " L"]:
        """What the activation, cut after 1, 2, … levels, is at t = ±1 at most, relative to max |σ|.

        Between two random directions of many dimensions t is small, and there the series converges. At t = ±1 that of a
        kinked or sharp activation does so only after many more levels than dimensions: until then it grows with each.
        """
        a = self.activation.energies(self.dimension, num_levels).detach()
        at_one, at_minus_one = a.cumsum(0), (a * (-1.0) ** torch.arange(len(a), device=a.device)).cumsum(0)
        t = torch.linspace(-1.0, 1.0, GRID, dtype=torch.float64, device=a.device)
        largest = torch.maximum(self.activation(t).detach().abs().max(), a[0].abs())  # a_0 is a mean of σ
        largest = largest.clamp_min(torch.finfo(torch.float64).tiny)
        return torch.maximum(at_one.abs(), at_minus_one.abs()) / largest

    def Kuu(self, kernel: Kernel) -> Float64[Tensor, "M M"]:
        zonal = self._zonal(kernel)
        directions = nn.functional.normalize(self.weights.double(), dim=-1)
        return self.match(kernel).kappa(directions @ directions.T) / zonal.variance.double()  # [M, M]

    def cross(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        return self.units(kernel, X.dtype).Kuf(X)

    def inverse_cholesky(self, kernel: Kernel) -> Inverse:
        R = inverse_cholesky(self.Kuu(kernel))
        return Inverse(R, inf if self.match(kernel).norm > LARGEST_NORM else magnification(R))

    def units(self, kernel: Kernel, dtype: torch.dtype) -> Units:
        """g_m(x) = r σ̃(ŵ_m · x̂)."""
        zonal = self._zonal(kernel)
        directions = nn.functional.normalize(self.weights.double(), dim=-1).to(dtype)
        shapes = Shapes(self.match(kernel).sigma(dtype, directions.device), self.num_inducing, None)
        return Units(zonal.lengthscale.to(dtype), directions, zonal.variance.to(dtype), None, shapes)

    def complaints(self, kernel: Kernel) -> list[str]:
        return self.complaints_beside(0, kernel)

    def complaints_beside(self, num_points: int, kernel: Kernel) -> list[str]:
        """What is lost beside inducing points, which explain what the units leave of the prior."""
        match = self.match(kernel)
        if not match.shared.any():
            raise ValueError(
                f"activation and kernel must share a level, got none among the first {self.num_levels}; "
                "raise num_levels, or use MatchedKernel with this activation"
            )
        found = [*self._overshooting(), *match.complaints()]
        return found if num_points else [*found, *match.complaints_of_the_rest(self._has_room)]

    def _has_room(self) -> bool:
        """Whether two more levels would not overshoot; their energies may take seconds to find."""
        return bool(self.overshoots(self.num_levels + 2)[-1] <= OVERSHOOT_WARNING)

    def _overshooting(self) -> list[str]:
        overshoots = self.overshoots(self.num_levels)
        if not overshoots[-1] > OVERSHOOT_WARNING:
            return []
        enough = int((overshoots <= OVERSHOOT_WARNING).nonzero()[-1]) + 1  # one level never overshoots
        return [
            f"the activation, cut after {self.num_levels} levels in {self.input_dim} dimensions, is "
            f"{overshoots[-1].item():.2g} times too large at t = ±1, for inputs along a unit's weights, and its norm "
            f"hides what it explains; use num_levels={enough}, or a smoother activation (Softplus, or a smaller beta)"
        ]

    def _zonal(self, kernel: Kernel) -> ZonalKernel:
        if not isinstance(kernel, ZonalKernel):
            raise TypeError(
                f"activated features need a zonal kernel, got {type(kernel).__name__}; use actgp.ArcCosine or another "
                "actgp kernel, or InducingPoints, which take any kernel"
            )
        if kernel.input_dim != self.input_dim:
            raise ValueError(
                f"kernel and features must have the same input_dim, got {kernel.input_dim} and {self.input_dim}; "
                "build both with the number of columns of X"
            )
        if kernel.batch_shape or kernel.active_dims is not None:
            raise ValueError(
                f"activated features need a kernel of all inputs without batch_shape, got batch_shape "
                f"{list(kernel.batch_shape)} and active_dims {kernel.active_dims}; select the columns of X instead, "
                "and build one layer for each element of a batch"
            )
        return kernel

    def extra_repr(self) -> str:
        return f"input_dim={self.input_dim}, num_inducing={self.num_inducing}, num_levels={self.num_levels}"
