"""What inducing features are: variables u that summarise a GP, given by their covariances.

Layers work with whitened variables, u = L v with L Lᵀ = Kuu, and so with A = Kfu L⁻ᵀ.
"""

from abc import ABC, abstractmethod
from math import inf, isnan
from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.autocast import full_precision
from actgp.features.units import Units
from actgp.linalg import inverse_cholesky

LARGEST_MAGNIFICATION = 2e3  # A is then good to about 1e-4 of √k(x, x), with Kuf in float32


class Inverse(NamedTuple):
    """L⁻¹, and how much it magnifies the round-off of what it is multiplied with."""

    R: Float64[Tensor, "M M"]
    magnification: float


def precision_for(dtype: torch.dtype, magnification: float) -> torch.dtype:
    """The precision in which a layer is computed: the given one, or float64 where that will not do."""
    return dtype if magnification <= LARGEST_MAGNIFICATION else torch.float64


def magnification(R: Float64[Tensor, "*batch M M"], sd: Float64[Tensor, "*batch"] | None = None) -> float:
    """‖L⁻¹‖ relative to a standard deviation of u, by default that of the first; the largest of a batch."""
    R = R.detach()
    size = torch.linalg.vector_norm(R, dim=(-2, -1))
    largest = (size / R[..., 0, 0] if sd is None else size * sd.detach()).max().item()
    return inf if isnan(largest) else largest


class Whitening(NamedTuple):
    """What a layer needs to know besides x: R = L⁻¹, the precision of Kuf, and the units it consists of, if it does."""

    R: Float64[Tensor, "M M"]
    dtype: torch.dtype
    units: Units | None


class InducingFeatures(nn.Module, ABC):
    """Inducing variables u_1, …, u_M of a GP with a given kernel."""

    @property
    @abstractmethod
    def num_inducing(self) -> int:
        """M."""

    @property
    @abstractmethod
    def input_dim(self) -> int:
        """D."""

    @property
    def blocks(self) -> tuple[int, ...]:
        """Sizes of the groups of inducing variables between which q is independent: one group, unless they say so."""
        return (self.num_inducing,)

    @property
    def num_means(self) -> int:
        """How many of the inducing variables, from the first on, the mean may use: all of them, unless they say so."""
        return self.num_inducing

    @abstractmethod
    def Kuu(self, kernel: Kernel) -> Float64[Tensor, "M M"]:
        """Cov(u_m, u_m'). In float64 in every model: it is ill-conditioned, and only M × M."""

    @abstractmethod
    def cross(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        """Kuf for inputs that have been checked: what runs inside a training step."""

    def inverse_cholesky(self, kernel: Kernel) -> Inverse:
        """L⁻¹, L Lᵀ = Kuu."""
        R = inverse_cholesky(self.Kuu(kernel))
        return Inverse(R, magnification(R))

    def units(self, kernel: Kernel, dtype: torch.dtype) -> Units | None:
        """The hidden units that Kuf consists of, in a precision; None for features that are not of this kind."""
        return None

    def whitening(self, kernel: Kernel, dtype: torch.dtype = torch.float64) -> Whitening:
        """What a layer needs to know besides x; Kuf in a precision, or in float64 where that will not do."""
        R, largest = self.inverse_cholesky(kernel)
        own = precision_for(dtype, largest)
        return Whitening(R, own, self.units(kernel, own))

    @full_precision
    def Kuf(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        """Cov(u_m, f(x_i)), in the precision of X."""
        return self.cross(kernel, checks.inputs(X, self.input_dim))

    @abstractmethod
    def complaints(self, kernel: Kernel) -> list[str]:
        """What is lost when these features summarise a GP with this kernel, each with its remedy."""
