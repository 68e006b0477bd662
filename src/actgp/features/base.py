"""What inducing features are: variables u that summarise a GP, given by their covariances."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks


class Covariances(NamedTuple):
    """How inputs covary with the inducing variables, and with themselves."""

    Kuf: Float[Tensor, "M N"]
    prior: Float[Tensor, " N"]  # k(x, x)


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

    def covariances(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Covariances:
        """All that a layer needs to know of X; for features that find both cheaper together than apart."""
        return Covariances(self.cross(kernel, X), kernel(X, diag=True))

    def Kuf(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        """Cov(u_m, f(x_i)), in the precision of X."""
        return self.cross(kernel, checks.inputs(X, self.input_dim))

    @abstractmethod
    def complaints(self, kernel: Kernel) -> list[str]:
        """What is lost when these features summarise a GP with this kernel, each with its remedy."""
