"""What functions of a prior are drawn with: random zonal functions whose covariance is the kernel's, on all levels.

    f(x) = √(v/F) Σ_j ε_j r h_j(ω_j · x̂),   ε_j ~ N(0, 1),   ω_j uniform on the sphere,
    E[h_j(ω · x̂) h_j(ω · x̂')] = s(x̂ · x̂')

Three kinds of h do this:

* Σ_n √(k_n N_n) P_n(t), for kernels with finitely many levels, or whose levels decay fast;
* t₊^p / ‖t₊^p‖, the hidden unit of which the arc-cosine kernel of order p is the covariance;
* √2 cos(s_j t + b_j), a plane wave, for kernels that are stationary in the space around the sphere, where s_j has the
  distribution of the lengths of frequencies under their spectral density.

The last two have all levels, however slowly these decay.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import pi, sqrt

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp.sphere import Zonal, zonal_series
from actgp.sphere.counting import log_num_harmonics
from actgp.sphere.plane_wave import wave_coefficients
from actgp.sphere.rectified import rectified_power_energies

FIRST_LEVELS, MOST_LEVELS = 32, 128  # of a prior that is drawn as a series
MISSING, MISSING_WARNING = 1e-8, 1e-3  # of its variance


class RandomShapes(ABC):
    """F functions h_j of t ∈ [−1, 1]."""

    @abstractmethod
    def __call__(self, t: Float64[Tensor, "F N"]) -> Float64[Tensor, "F N"]:
        """h_j(t_ji), differentiable almost everywhere."""

    @abstractmethod
    def energies(self, num_levels: int) -> Float64[Tensor, "#F L"]:
        """Of each h_j; one row where all are the same."""


@dataclass(frozen=True)
class SeriesShape(RandomShapes):
    """h(t) = Σ_n √(k_n N_n) P_n(t), from energies k_n of a kernel."""

    kernel_energies: Float64[Tensor, " L"]
    dimension: int

    def __call__(self, t: Float64[Tensor, "F N"]) -> Float64[Tensor, "F N"]:
        """h(t)."""
        return zonal_series(t, self._energies, self.dimension)

    def energies(self, num_levels: int) -> Float64[Tensor, "1 L"]:
        own = self._energies
        return torch.nn.functional.pad(own, (0, max(0, num_levels - len(own))))[None, :num_levels]

    @cached_property
    def _energies(self) -> Float64[Tensor, " L"]:
        k = self.kernel_energies.double()
        logs = torch.tensor([log_num_harmonics(n, self.dimension) for n in range(len(k))], dtype=torch.float64)
        return k.sqrt() * (0.5 * logs.to(k.device)).exp()


def series_shape(kernel: Zonal, dimension: int) -> SeriesShape:
    """The series of as many levels as a kernel's prior takes; warns if it has more than can be summed."""
    levels = FIRST_LEVELS
    while (missing := 1 - kernel.energies(dimension, levels).sum().item()) > MISSING and levels < MOST_LEVELS:
        levels *= 2
    if missing > MISSING_WARNING:
        warnings.warn(
            f"functions of {type(kernel).__name__} are drawn with {levels} levels, and {missing:.1%} of the prior's "
            "variance lies beyond; give the kernel a random_shapes of its own, or use one of actgp's",
            stacklevel=3,
        )
    return SeriesShape(kernel.energies(dimension, levels).detach(), dimension)


@dataclass(frozen=True)
class RectifiedShape(RandomShapes):
    """h(t) = t₊^p / ‖t₊^p‖. Steps, for p = 0: their gradient is zero wherever there is one."""

    power: int
    dimension: int

    def __call__(self, t: Float64[Tensor, "F N"]) -> Float64[Tensor, "F N"]:
        """h(t)."""
        rectified = (t > 0).to(t) if self.power == 0 else t.relu() ** self.power
        return rectified / rectified_norm(self.power, self.dimension)

    def energies(self, num_levels: int) -> Float64[Tensor, "1 L"]:
        values = rectified_power_energies(self.power, self.dimension, num_levels)
        return torch.tensor(values, dtype=torch.float64)[None] / rectified_norm(self.power, self.dimension)


@dataclass(frozen=True)
class PlaneWaves(RandomShapes):
    """h_j(t) = √2 cos(s_j t + b_j), b_j uniform on a circle."""

    wave_numbers: Float64[Tensor, " F"]
    phases: Float64[Tensor, " F"]
    dimension: int

    def __call__(self, t: Float64[Tensor, "F N"]) -> Float64[Tensor, "F N"]:
        """h_j(t)."""
        return sqrt(2) * torch.cos(self.wave_numbers[:, None] * t + self.phases[:, None])

    def energies(self, num_levels: int) -> Float64[Tensor, "F L"]:
        y = torch.from_numpy(wave_coefficients(self.wave_numbers.cpu().numpy(), self.dimension, num_levels))
        logs = torch.tensor([log_num_harmonics(n, self.dimension) for n in range(num_levels)], dtype=torch.float64)
        n = torch.arange(num_levels, dtype=torch.float64)
        turned = torch.cos(self.phases.cpu()[:, None] + n * pi / 2)
        return (sqrt(2) * (0.5 * logs).exp() * y * turned).to(self.phases.device)


def rectified_norm(power: int, dimension: int) -> float:
    """‖t₊^p‖ = √(E[t^(2p)] / 2) on the sphere, for p = 0, 1, 2."""
    d = dimension
    return sqrt((1 / 2, 1 / (2 * d), 3 / (2 * d * (d + 2)))[power])
