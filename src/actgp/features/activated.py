"""Activated inducing variables, u_m = ⟨f, g_m⟩ with g_m(x) = r σ̃(ŵ_m · x̂): the paper's section 4.

    Kuf[m, i]  = r_i Σ_n a_n P_n(ŵ_m · x̂_i)            the hidden activations (eq. 12)
    Kuu[m, m'] = (1/v) Σ_n c_n P_n(ŵ_m · ŵ_m')          c_n = a_n² / k_n     (eq. 11)

with n < Ñ and the same levels in both, which makes Kfu Kuu⁻¹ Kuf ≤ Kff for every truncation.
"""

from typing import Any, ClassVar

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.activations import Activation
from actgp.activations import activation as activation_of
from actgp.features.base import InducingFeatures
from actgp.features.match import SpectralMatch, spectral_match
from actgp.features.mismatch import mismatches
from actgp.features.units import Shapes, Units
from actgp.kernels import ZonalKernel
from actgp.persistence import Sizes, savable

LARGEST_ENERGY = 1e30  # beyond it a float32 model would overflow


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

    Example:
        >>> import actgp, torch
        >>> features, kernel = actgp.ActivatedFeatures(input_dim=2, num_inducing=5), actgp.ArcCosine(input_dim=2)
        >>> features.Kuf(kernel, torch.randn(7, 2)).shape  # the hidden units at seven inputs
        torch.Size([5, 7])
    """

    SIZES: ClassVar[Sizes] = {"weights": ("num_inducing", "input_dim + 1")}
    _found: tuple[list[Any], Float64[Tensor, " L"]] | None = None  # the state of an activation, and its energies

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
        self._learnt = any(True for _ in self.activation.parameters())
        self.weights = nn.Parameter(nn.functional.normalize(torch.randn(M, self.dimension, generator=generator)))
        if (largest := self._energies().abs().max().item()) > LARGEST_ENERGY:
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
        return spectral_match(self._zonal(kernel), self._energies(), self.dimension, self.weights.device)

    def _energies(self) -> Float64[Tensor, " L"]:
        """a_n, found once for an activation that is not learnt, unless its state changes."""
        if self._learnt:
            return self.activation.energies(self.dimension, self.num_levels)
        state = [buffer.tolist() for buffer in self.activation.buffers()]
        if self._found is None or self._found[0] != state:
            self._found = state, self.activation.energies(self.dimension, self.num_levels)
        return self._found[1]

    def units(self, kernel: Kernel) -> Units:
        """g_m(x) = r σ̃(ŵ_m · x̂)."""
        zonal = self._zonal(kernel)
        return Units(
            zonal.lengthscale, zonal.variance, self.weights, Shapes(self.match(kernel), len(self.weights), None)
        )

    def complaints(self, kernel: Kernel) -> list[str]:
        return mismatches(self.match(kernel), self.activation, beside_points=False)

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
