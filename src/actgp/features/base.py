"""What inducing features are: variables u that summarise a GP, given by their covariances."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.linalg import inverse_cholesky


class Whitening(NamedTuple):
    """What does not depend on x: R = L⁻¹, L Lᵀ = Kuu, and for activated features directions Ŵ and energies of σ̃."""

    R: Float[Tensor, "M M"]
    directions: Float[Tensor, "M d"] | None = None
    sigma: tuple[float, ...] = ()

    def to(self, dtype: torch.dtype) -> "Whitening":
        """The same in another precision."""
        directions = None if self.directions is None else self.directions.to(dtype)
        return Whitening(self.R.to(dtype), directions, self.sigma)


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

    @abstractmethod
    def Kuu(self, kernel: Kernel) -> Float64[Tensor, "M M"]:
        """Cov(u_m, u_m'). In float64 in every model: it is ill-conditioned, and only M × M."""

    @abstractmethod
    def cross(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        """Kuf for inputs that have been checked: what runs inside a training step."""

    def whitening(self, kernel: Kernel) -> Whitening:
        """What a layer needs to know besides X."""
        return Whitening(inverse_cholesky(self.Kuu(kernel)))

    def through(
        self, kernel: Kernel, X: Float[Tensor, "N D"], B: Float[Tensor, "K M"], whitening: Whitening
    ) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
        """Kfu Bᵀ and k(x, x), for features that find them cheaper together, or from what they know of the whitening."""
        return self.cross(kernel, X).T @ B.T, kernel(X, diag=True)

    def Kuf(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        """Cov(u_m, f(x_i)), in the precision of X."""
        return self.cross(kernel, checks.inputs(X, self.input_dim))

    @abstractmethod
    def complaints(self, kernel: Kernel) -> list[str]:
        """What is lost when these features summarise a GP with this kernel, each with its remedy."""
