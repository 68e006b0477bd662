"""How well an activation's spectrum fits a kernel's.

The inducing variable u = ⟨f, g⟩ exists where g is in the kernel's RKHS, ‖g‖² = Σ_n c_n with c_n = a_n² / k_n. Three
things can go wrong (paper, section 4.3):

* the activation has energy on levels where the kernel has none: those levels are dropped from g;
* the kernel has energy on levels where the activation has none, or beyond the truncation: that prior variance is
  never explained;
* the norm grows with the truncation: the larger it is, the less each inducing variable explains.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp.sphere import Polynomial, Zonal, evaluated, polynomial, zonal_series


class SpectralMismatchWarning(UserWarning):
    """An activation whose spectrum does not fit its kernel's.

    Example:
        >>> import actgp, warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", actgp.SpectralMismatchWarning)  # refuse such pairs
    """


@dataclass(frozen=True, eq=False)
class SpectralMatch:
    """The spectra of a kernel and an activation side by side.

    Attributes:
        kernel_energies: k_n, for n < Ñ.
        activation_energies: a_n, for n < Ñ.
        dimension: d.
    """

    kernel_energies: Float64[Tensor, " L"]
    activation_energies: Float64[Tensor, " L"]
    dimension: int

    @cached_property
    def shared(self) -> Float64[Tensor, " L"]:
        """a_n where the kernel has level n, else zero: what the features use."""
        return torch.where(self.kernel_energies > 0, self.activation_energies, 0.0)

    @cached_property
    def norms(self) -> Float64[Tensor, " L"]:
        """c_n = a_n² / k_n, whose sum is the squared RKHS norm of a feature at v = 1."""
        k = torch.where(self.kernel_energies > 0, self.kernel_energies, 1.0)
        return self.shared**2 / k

    @cached_property
    def norm(self) -> float:
        """κ(1) = Σ_n c_n, the squared RKHS norm of a feature at v = 1."""
        return self.norms.detach().sum().item()

    @property
    def num_levels(self) -> int:
        """Ñ."""
        return len(self.kernel_energies)

    @property
    def learnt(self) -> bool:
        """Whether energies are to be differentiated."""
        return self.kernel_energies.requires_grad or self.activation_energies.requires_grad

    def sigma(self, dtype: torch.dtype, device: torch.device) -> Polynomial:
        """σ̃(t) = Σ_n a_n P_n(t) for t of a precision, where no energies are learnt."""
        return polynomial(self._shared, self.dimension, dtype, device)

    def sigma_at(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """σ̃(t), with derivatives of every order."""
        if self.learnt:
            return zonal_series(t, self.shared, self.dimension)
        return evaluated(self.sigma(t.dtype, t.device), t)

    def kappa_at(self, t: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
        """κ(t) = Σ_n c_n P_n(t), so that Kuu = κ(Ŵ Ŵᵀ) / v; likewise."""
        if self.learnt:
            return zonal_series(t, self.norms, self.dimension)
        return evaluated(polynomial(self._norms, self.dimension, t.dtype, t.device), t)

    @cached_property
    def _shared(self) -> tuple[float, ...]:
        return tuple(self.shared.tolist())

    @cached_property
    def _norms(self) -> tuple[float, ...]:
        return tuple(self.norms.tolist())

    @property
    def lost(self) -> float:
        """The fraction of Σ |a_n| on levels which the kernel does not have."""
        a = self.activation_energies.detach().abs()
        return 1 - (self.shared.detach().abs().sum() / a.sum()).item()

    @property
    def missing(self) -> float:
        """The fraction of prior variance on levels n < Ñ which the activation does not have."""
        return self.kernel_energies.detach()[self.shared.detach() == 0].sum().item()

    @property
    def truncated(self) -> float:
        """The fraction of prior variance on levels n ≥ Ñ, since the energies of a kernel sum to one."""
        return 1 - self.kernel_energies.detach().sum().item()

    @property
    def upper_norm(self) -> float:
        """The fraction of the squared norm on the upper half of the levels; near zero where the norm converges."""
        c = self.norms.detach()
        total = c.sum().item()
        return c[len(c) // 2 :].sum().item() / total if total > 0 else 0.0


def spectral_match(
    kernel: Zonal, activation_energies: Float64[Tensor, " L"], dimension: int, device: torch.device
) -> SpectralMatch:
    """The first levels of a kernel and an activation side by side; one object for the same energies."""
    a = activation_energies
    k = kernel.energies(dimension, len(a))
    if k.requires_grad or a.requires_grad:
        return SpectralMatch(k, a, dimension)
    return _fixed_match(tuple(k.tolist()), tuple(a.tolist()), dimension, device)


@lru_cache(maxsize=256)
def _fixed_match(k: tuple[float, ...], a: tuple[float, ...], dimension: int, device: torch.device) -> SpectralMatch:
    k_n, a_n = (torch.tensor(values, dtype=torch.float64, device=device) for values in (k, a))
    match = SpectralMatch(k_n, a_n, dimension)
    for dtype in (torch.float32, torch.float64):
        match.sigma(dtype, device)  # how to sum the series is found once
    match.kappa_at(torch.zeros((), dtype=torch.float64, device=device))
    return match
