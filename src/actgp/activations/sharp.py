"""Smooth activations with a sharpness β: σ(t) = u(β t) / β, for softplus, swish, GELU and tanh.

A fixed β has its energies computed once, to full accuracy. A learnable β needs them, and their derivative, at every
step: log |a_n| is a smooth function of log β, so we compute it once at Chebyshev points and interpolate.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Any, NamedTuple

import mpmath
import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy.polynomial import chebyshev
from torch import Tensor, nn

from actgp import checks
from actgp.activations.base import Activation
from actgp.persistence import savable
from actgp.sphere import quadrature
from actgp.sphere.series import zonal_series

ExactUnit = Callable[[mpmath.mpf], mpmath.mpf]

LEARNABLE_RANGE = (0.1, 10.0)
INTERPOLATION_POINTS = 32  # log |a_n| to 1e-6 or better


class SharpActivation(Activation):
    """σ(t) = u(β t) / β.

    Args:
        beta: The sharpness β > 0. The larger, the closer to the limit (ReLU for softplus, swish and GELU).
        learnable: Whether β is a parameter, kept between 0.1 and 10. The first use in a dimension then takes some
            seconds, for the energies at many β.
    """

    fixed_beta: Tensor

    def __init__(self, beta: float = 1.0, *, learnable: bool = False) -> None:
        super().__init__()
        beta = checks.positive(beta, "beta")
        low, high = LEARNABLE_RANGE
        self.learnable = learnable
        if not learnable:
            self.register_buffer("fixed_beta", torch.tensor(beta, dtype=torch.float64))
            return
        if not low < beta < high:
            raise ValueError(
                f"a learnable beta must start between {low} and {high}, got {beta}; start nearer to 1, or fix it"
            )
        fraction = torch.tensor(log(beta / low) / log(high / low))
        self.raw_beta = nn.Parameter(torch.logit(fraction))

    @staticmethod
    @abstractmethod
    def unit(x: Tensor) -> Tensor:
        """u(x), in torch."""

    @staticmethod
    @abstractmethod
    def exact_unit(x: mpmath.mpf) -> mpmath.mpf:
        """u(x), to mpmath's working precision."""

    @property
    def beta(self) -> Tensor:
        """The sharpness β, a scalar tensor."""
        if not self.learnable:
            return self.fixed_beta
        low, high = LEARNABLE_RANGE
        return low * (high / low) ** torch.sigmoid(self.raw_beta)

    def forward(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        beta = self.beta.to(t)
        return self.unit(beta * t) / beta

    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        if not self.learnable:
            beta = self.fixed_beta
            values = quadrature.energies(_Sharpened(self.exact_unit, beta.item()), dimension, num_levels)
            return torch.tensor(values, dtype=torch.float64, device=beta.device)
        signs, coefficients = _interpolant(self.exact_unit, dimension, num_levels)
        x = 2 * torch.sigmoid(self.raw_beta.double()) - 1  # log β, mapped onto [−1, 1]
        logs = zonal_series(x, coefficients.to(x.device), dimension=2)  # P_n in dimension 2 is Chebyshev's T_n
        return signs.to(x.device) * torch.exp(logs)

    def config(self) -> dict[str, Any]:
        return {"learnable": True} if self.learnable else {"beta": self.fixed_beta.item()}

    def extra_repr(self) -> str:
        return f"beta={self.beta.item():.6g}, learnable={self.learnable}"


@dataclass(frozen=True)
class _Sharpened:
    """t ↦ u(β t) / β for mpmath numbers; equal where u and β are, so that energies are cached."""

    exact_unit: ExactUnit
    beta: float

    def __call__(self, t: mpmath.mpf) -> mpmath.mpf:
        return self.exact_unit(self.beta * t) / self.beta


class _Interpolant(NamedTuple):
    signs: Float64[Tensor, " L"]
    coefficients: Float64[Tensor, "L K"]


@lru_cache(maxsize=64)
def _interpolant(exact_unit: ExactUnit, dimension: int, num_levels: int) -> _Interpolant:
    """Chebyshev coefficients of log |a_n| in log β, where a level that is zero for one β is zero for all."""
    low, high = LEARNABLE_RANGE
    x = chebyshev.chebpts1(INTERPOLATION_POINTS)
    betas = low * (high / low) ** ((x + 1) / 2)
    a = np.array(
        [quadrature.energies(_Sharpened(exact_unit, float(b)), dimension, num_levels) for b in betas]
    )  # [K, L]
    mixed = (a == 0).any(0) & (a != 0).any(0)  # underflow for small β
    if mixed.any():
        raise ValueError(
            f"with a learnable beta, num_levels must be at most {int(mixed.argmax())} in dimension {dimension}, got "
            f"{num_levels}; lower it, or fix beta"
        )
    logs = np.log(np.where(a == 0, 1.0, np.abs(a)))
    coefficients = chebyshev.chebfit(x, logs, INTERPOLATION_POINTS - 1).T  # [L, K]
    return _Interpolant(torch.from_numpy(np.sign(a[-1])), torch.from_numpy(coefficients.copy()))


@savable
class Softplus(SharpActivation):
    """σ(t) = log(1 + exp(β t)) / β.

    The paper's activation, up to the factor 1/β, which the output weights absorb; the paper takes β = 3. The
    form is that of `torch.nn.Softplus`, and tends to ReLU as β grows.

    Args:
        beta: The sharpness β > 0: the larger, the closer to ReLU.
        learnable: Whether β is a parameter, kept between 0.1 and 10. The first use in a dimension then takes some
            seconds.

    Example:
        >>> import actgp, torch
        >>> actgp.Softplus(3.0)(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([0.0162, 0.2310, 1.0162])
    """

    @staticmethod
    def unit(x: Tensor) -> Tensor:
        return torch.nn.functional.softplus(x)

    @staticmethod
    def exact_unit(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.log1p(mpmath.exp(x))


@savable
class Swish(SharpActivation):
    """σ(t) = t / (1 + exp(−β t)).

    Also known as SiLU.

    Args:
        beta: The sharpness β > 0: the larger, the closer to ReLU.
        learnable: Whether β is a parameter, kept between 0.1 and 10. The first use in a dimension then takes some
            seconds.

    Example:
        >>> import actgp, torch
        >>> actgp.Swish()(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.2689,  0.0000,  0.7311])
    """

    @staticmethod
    def unit(x: Tensor) -> Tensor:
        return torch.nn.functional.silu(x)

    @staticmethod
    def exact_unit(x: mpmath.mpf) -> mpmath.mpf:
        return x / (1 + mpmath.exp(-x))


@savable
class GELU(SharpActivation):
    """σ(t) = t Φ(β t), Φ the standard normal distribution function.

    The exact GELU, not its tanh approximation.

    Args:
        beta: The sharpness β > 0: the larger, the closer to ReLU.
        learnable: Whether β is a parameter, kept between 0.1 and 10. The first use in a dimension then takes some
            seconds.

    Example:
        >>> import actgp, torch
        >>> actgp.GELU()(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """

    @staticmethod
    def unit(x: Tensor) -> Tensor:
        return torch.nn.functional.gelu(x)

    @staticmethod
    def exact_unit(x: mpmath.mpf) -> mpmath.mpf:
        return x * mpmath.ncdf(x)


@savable
class Tanh(SharpActivation):
    """σ(t) = tanh(β t) / β.

    An odd function: its levels are 1, 3, 5, …, of which the arc-cosine kernel has only the first, and half of a Matérn
    kernel's variance lies on the others. Use it with `MatchedKernel`.

    Args:
        beta: The sharpness β > 0: the larger, the closer to a step of height 2 / β.
        learnable: Whether β is a parameter, kept between 0.1 and 10. The first use in a dimension then takes some
            seconds.

    Example:
        >>> import actgp, torch
        >>> actgp.Tanh(2.0)(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.4820,  0.0000,  0.4820])
    """

    @staticmethod
    def unit(x: Tensor) -> Tensor:
        return torch.tanh(x)

    @staticmethod
    def exact_unit(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.tanh(x)
