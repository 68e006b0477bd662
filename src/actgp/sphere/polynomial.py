"""A zonal series whose coefficients are fixed, prepared for evaluation: no more terms than its precision can tell.

    f(t) = g(u) + t q(u),   u = 2t² − 1        since T_2k(t) = T_k(u) and T_2k+1(t) = t V_k(u)

Summed by Horner's rule in u, a term costs one operation, or two together with the slope. Powers lose digits where
coefficients do not decay: round-off grows with Σ |h_j| / Σ |c_k|, where h_j belong to powers and c_k to Chebyshev
polynomials. For smooth activations that is 1.0 to 1.1, in every dimension; where it is more than `AMPLIFICATION`, as
for ReLU, the series is left to Clenshaw's recurrence.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from jaxtyping import Float
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from torch import Tensor

from actgp.sphere.chebyshev import chebyshev_series, connection, differentiation

AMPLIFICATION = 2.0
UNSEEN = 1 / 16  # what may be left out, of the round-off of Σ |c_k|


@dataclass(frozen=True, eq=False)
class Polynomial:
    """f(t) = Σ_k c_k T_k(t) on [−1, 1], for t of one precision and device; made by `prepared`.

    Attributes:
        coefficients: c_k.
        powers: The coefficients of g and of q in powers of u, lowest first; None where these would lose digits.
        minus_one: −1.
    """

    coefficients: Float[Tensor, " K"]
    powers: tuple[tuple[Tensor, ...], ...] | None
    minus_one: Float[Tensor, ""]

    def __call__(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """f(t)."""
        if self.powers is None:
            return chebyshev_series(t, self.coefficients)
        u = torch.addcmul(self.minus_one, t, t, value=2.0)
        g, q = (_horner(u, terms) for terms in self.powers)
        return torch.addcmul(g, t, q)

    def with_slope(self, t: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        """f(t) and f'(t)."""
        if self.powers is None:
            return self(t), self.derivative(t)
        u = torch.addcmul(self.minus_one, t, t, value=2.0)
        even, odd = self.powers
        g, g_slope = _horner_with_slope(u, even)
        if len(odd) == 1:  # exactly linear: that of softplus, swish and GELU
            q, inner = odd[0], g_slope
        else:
            q, q_slope = _horner_with_slope(u, odd)
            inner = torch.addcmul(g_slope, t, q_slope)
        return torch.addcmul(g, t, q), torch.addcmul(q, t, inner, value=4.0)  # du/dt = 4t

    @cached_property
    def derivative(self) -> "Polynomial":
        """f'."""
        c = self.coefficients.double().cpu()
        return prepared((c @ differentiation(len(c))).numpy(), self.coefficients.dtype, self.coefficients.device)


@lru_cache(maxsize=1024)
def polynomial(energies: tuple[float, ...], dimension: int, dtype: torch.dtype, device: torch.device) -> Polynomial:
    """Σ_n e_n P_n(t) in a dimension, for t of a precision."""
    c = torch.tensor(energies, dtype=torch.float64) @ connection(dimension, len(energies))
    return prepared(c.numpy(), dtype, device)


@lru_cache(maxsize=1024)
def slope_polynomial(
    energies: tuple[float, ...], dimension: int, dtype: torch.dtype, device: torch.device
) -> Polynomial:
    """Σ_n e_n P_n'(t), as exact as its precision allows."""
    exact = polynomial(energies, dimension, torch.float64, device).derivative
    return prepared(exact.coefficients.cpu().numpy(), dtype, device)


def prepared(c: NDArray[np.float64], dtype: torch.dtype, device: torch.device) -> Polynomial:
    """Σ_k c_k T_k(t)."""

    def tensor(values: NDArray[np.floating]) -> Tensor:
        return torch.as_tensor(values).to(device=device, dtype=dtype)

    c = _trimmed(c, dtype)
    even, odd = (np.trim_zeros(part, "b") for part in (chebyshev.cheb2poly(c[0::2]), _powers_of_odd_part(c[1::2])))
    lossy = np.abs(even).sum() + np.abs(odd).sum() > AMPLIFICATION * np.abs(c).sum()
    zero = np.zeros(1)
    powers = None if lossy else tuple(tuple(tensor(part if len(part) else zero).unbind()) for part in (even, odd))
    return Polynomial(tensor(c), powers, tensor(np.array(-1.0)))


def _trimmed(c: NDArray[np.float64], dtype: torch.dtype) -> NDArray[np.float64]:
    """The coefficients without those at the end whose sum drowns in round-off."""
    tails = np.cumsum(np.abs(c)[::-1])[::-1]  # Σ_{j≥k} |c_j|
    seen = np.count_nonzero(tails > UNSEEN * torch.finfo(dtype).eps * tails[0])
    return c[: max(1, seen)]


def _powers_of_odd_part(c: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_k c_k V_k(u) in powers of u: V_0 = 1, V_1 = 2u − 1, V_{k+1} = 2u V_k − V_{k−1}."""
    powers = np.zeros(max(1, len(c)))
    before, V = np.array([1.0]), np.array([1.0])  # V_{−1} = V_0
    for c_k in c:
        powers[: len(V)] += c_k * V
        following = np.append(0.0, 2 * V)
        following[: len(before)] -= before
        before, V = V, following
    return powers


def _horner(u: Tensor, terms: tuple[Tensor, ...]) -> Tensor:
    if len(terms) == 1:
        return terms[0]
    b = _linear(u, terms)
    for h in reversed(terms[:-2]):
        b = torch.addcmul(h, b, u, out=None if torch.is_grad_enabled() else b)
    return b


def _horner_with_slope(u: Tensor, terms: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    if len(terms) == 1:
        return terms[0], torch.zeros_like(terms[0])
    b, slope = _linear(u, terms), terms[-1]
    for h in reversed(terms[:-2]):
        slope = torch.addcmul(b, slope, u, out=slope if slope.ndim else None)  # in place, once there is a place
        b = torch.addcmul(h, b, u, out=b)
    return b, slope


def _linear(u: Tensor, terms: tuple[Tensor, ...]) -> Tensor:
    """The innermost bracket. addcmul with two numbers would not be vectorised."""
    return (u * terms[-1]).add_(terms[-2])
