"""What inducing features are: variables u that summarise a GP, given by their covariances."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.autocast import full_precision
from actgp.features.match import SpectralMatch
from actgp.features.units import UnitInputs, units
from actgp.features.whitening import magnifies
from actgp.linalg import inverse_cholesky


class Whitening(NamedTuple):
    """What does not depend on x: R = L⁻¹, L Lᵀ = Kuu, and for units their directions, spectra, v and amplitudes.

    In float64 where L⁻¹ would magnify the round-off of a Kuf in float32.
    """

    R: Float[Tensor, "M M"]
    directions: Float[Tensor, "M d"] | None = None
    match: SpectralMatch | None = None
    variance: Float[Tensor, ""] | None = None  # v of a zonal kernel
    amplitudes: Float[Tensor, " K"] | None = None  # v r_z of inducing points
    relative: Float[Tensor, "M M"] | None = None  # E, whose gradient stands for that of R (`features.whitening`)


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

    def whitening(self, kernel: Kernel, dtype: torch.dtype = torch.float64) -> Whitening:
        """What a layer needs to know besides X, in a precision, or in float64 where that will not do."""
        R = inverse_cholesky(self.Kuu(kernel))
        return Whitening(R if dtype == R.dtype or magnifies(R.detach()) else R.to(dtype))

    def unit_inputs(self, kernel: Kernel, B: Float[Tensor, "K M"], whitening: Whitening) -> UnitInputs | None:
        """What makes Kfu Bᵀ and k(x, x) in the precision of B, for features that are units whose spectra are fixed."""
        return None

    def through(
        self, kernel: Kernel, X: Float[Tensor, "N D"], B: Float[Tensor, "K M"], whitening: Whitening
    ) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
        """Kfu Bᵀ and k(x, x), from what is known of the whitening."""
        if (inputs := self.unit_inputs(kernel, B, whitening)) is not None:
            return units(X, *inputs)
        return self.cross(kernel, X).T @ B.T, kernel(X, diag=True)

    @full_precision
    def Kuf(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        """Cov(u_m, f(x_i)), in the precision of X."""
        return self.cross(kernel, checks.inputs(X, self.input_dim))

    def fixed_match(self, kernel: Kernel) -> SpectralMatch | None:
        """The spectra of units and kernel, if nothing of them is learnt: layers that are alike then share work."""
        return None

    @abstractmethod
    def complaints(self, kernel: Kernel) -> list[str]:
        """What is lost when these features summarise a GP with this kernel, each with its remedy."""
