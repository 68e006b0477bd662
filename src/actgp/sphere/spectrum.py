"""Spectra: how much of a shape function lives on each level of harmonics."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp import checks
from actgp.sphere.counting import num_harmonics


@runtime_checkable
class Zonal(Protocol):
    """Anything with a shape function on [−1, 1]: a kernel or an activation."""

    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]: ...


@dataclass(frozen=True)
class Spectrum:
    """The first levels of a shape function s(t) = Σ_n a_n P_n(t).

    Attributes:
        energies: a_n, float64. They sum to s(1) as the number of levels grows.
        dimension: The dimension d of the space that holds the sphere.

    Example:
        >>> import actgp
        >>> spectrum = actgp.spectrum(actgp.ArcCosine(input_dim=2), dimension=3, num_levels=4)
        >>> spectrum.energies
        tensor([0.3750, 0.5000, 0.1172, 0.0000], dtype=torch.float64)
    """

    energies: Float64[Tensor, " L"]
    dimension: int

    @property
    def eigenvalues(self) -> Float64[Tensor, " L"]:
        """λ_n (of a kernel) or σ_n (of an activation): a_n / N_n, the paper's Fourier coefficients."""
        inverse_counts = [1 / num_harmonics(n, self.dimension) for n in range(self.num_levels)]
        return self.energies * torch.tensor(inverse_counts, dtype=torch.float64, device=self.energies.device)

    @property
    def num_levels(self) -> int:
        """Ñ."""
        return self.energies.shape[-1]


def spectrum(shape: Zonal, dimension: int, num_levels: int) -> Spectrum:
    """The spectrum of a kernel's or an activation's shape function.

    Args:
        shape: An actgp kernel or activation.
        dimension: d ≥ 2, one more than the number of inputs.
        num_levels: Ñ ≥ 1, the number of levels n = 0, …, Ñ−1.

    Returns:
        Eigenvalues and energies of the first levels.

    Example:
        >>> import actgp
        >>> actgp.spectrum(actgp.ReLU(), dimension=3, num_levels=4).eigenvalues
        tensor([0.2500, 0.1667, 0.0625, 0.0000], dtype=torch.float64)
    """
    if not isinstance(shape, Zonal) or isinstance(shape, type | Spectrum):
        raise TypeError(
            f"shape must be an actgp kernel or activation, got {type(shape).__name__}; "
            "wrap a function in actgp.CustomActivation or actgp.CustomKernel"
        )
    d = checks.integer(dimension, "dimension", minimum=2)
    levels = checks.integer(num_levels, "num_levels", minimum=1)
    return Spectrum(shape.energies(d, levels).clone(), d)
