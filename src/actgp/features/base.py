"""What inducing features are: variables u that summarise a GP, given by their covariances."""

from abc import ABC, abstractmethod

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.autocast import full_precision
from actgp.features.units import Units
from actgp.sphere import lift, project


class InducingFeatures(nn.Module, ABC):
    """Inducing variables u_1, …, u_M of a GP with a given kernel.

    Example:
        >>> import actgp, torch
        >>> points = actgp.InducingPoints(torch.randn(5, 2))
        >>> isinstance(points, actgp.InducingFeatures), points.Kuu(actgp.ArcCosine(2)).shape
        (True, torch.Size([5, 5]))
    """

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

    def units(self, kernel: Kernel) -> Units | None:
        """The hidden units that Kuf consists of; None for features that are not of this kind."""
        return None

    def Kuu(self, kernel: Kernel) -> Float64[Tensor, "M M"]:
        """Cov(u_m, u_m'). In float64 in every model: it is ill-conditioned, and only M × M."""
        return covariance(self._units(kernel))

    def cross(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        """Kuf for inputs that have been checked."""
        units = self._units(kernel)
        amplitudes, (lengthscale, vectors) = units.amplitudes(), (units.lengthscale, units.normalised().vectors)
        radius, x = project(lift(X / lengthscale.to(X)))
        Kfu = radius.unsqueeze(-1) * units.shapes(x @ vectors.to(X).T)  # [N, M]
        return (Kfu * amplitudes.to(X)).T

    def _units(self, kernel: Kernel) -> Units:
        units = self.units(kernel)
        assert units is not None  # features of another kind have Kuu and cross of their own
        return units

    @full_precision
    def Kuf(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        """Cov(u_m, f(x_i)), in the precision of X."""
        return self.cross(kernel, checks.inputs(X, self.input_dim))

    @abstractmethod
    def complaints(self, kernel: Kernel) -> list[str]:
        """What is lost when these features summarise a GP with this kernel, each with its remedy."""


def covariance(units: Units) -> Float64[Tensor, "M M"]:
    """Kuu of hidden units: D Φ D."""
    c, (Phi, *others) = units.amplitudes(), units.normalised().Phi()
    if others:
        vu, vv = others
        Phi = torch.cat([torch.cat([Phi, vu.mT], dim=-1), torch.cat([vu, vv], dim=-1)])
    return c.unsqueeze(-1) * c * Phi / units.variance.double()
