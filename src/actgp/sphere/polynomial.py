"""Functions of t = x̂ · x̂' with exact derivatives, so that t = ±1 is an ordinary point; series with fixed energies.

Automatic differentiation of arccos t or √(1−t²) meets 0 · ∞ at t = ±1, where every kernel has its diagonal. The
derivatives of shapes built from them are finite there, and are given instead (`with_derivative`).

For a series whose energies are fixed, how to sum it is chosen once (`polynomial`):

    f(t) = Σ_n e_n P_n(t) = g(u) + t q(u),   u = 2t² − 1

Powers of u, summed by Horner's rule, cost one operation a term, or two together with the slope, and smooth activations
need few of them. Their round-off is ε Σ |h_j|, where h_j are the coefficients of g and q. That of t itself, a product
of unit vectors, changes f by about ε ‖f'‖, whatever is done. So powers are used where they add little to that,

    Σ |h_j| ≤ 8 max(‖f‖, ‖f'‖),      ‖f‖² = Σ_n e_n² / N_n,

the norms being those on the sphere, and where the same is true of the slope. Everything else, such as ReLU, whose
energies are huge and of both signs in many dimensions, is left to Clenshaw's recurrence, which is stable for every
series.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from torch import Tensor

from actgp.sphere.counting import log_num_harmonics
from actgp.sphere.gegenbauer import clenshaw, recurrence, slope

Function = Callable[[Tensor], Tensor]

AMPLIFICATION = 8.0
UNSEEN = 1 / 16  # what may be left out, of the round-off


@lru_cache(maxsize=256)
def connection(dimension: int, num_levels: int) -> NDArray[np.float64]:
    """G, [Ñ, Ñ], which takes energies e_n to Chebyshev coefficients c_k = Σ_n e_n G_nk, by the recurrence of the P_n.

    P_n = Σ_k G_nk T_k is an average of cosines: G is non-negative, with rows that sum to one. Nothing cancels for
    energies of one sign; energies of both signs may cancel.
    """
    rows = [np.array([1.0]), np.array([0.0, 1.0])]
    for n in range(1, num_levels - 1):
        A, B = recurrence(n, dimension)
        rows.append(chebyshev.chebsub(A * chebyshev.chebmulx(rows[n]), B * rows[n - 1]))
    return np.stack([np.pad(row, (0, num_levels - len(row))) for row in rows[:num_levels]])


@dataclass(frozen=True, eq=False)
class Polynomial:
    """f(t) = Σ_n e_n P_n(t) on [−1, 1], for t of one precision and device; made by `polynomial`.

    Attributes:
        energies: e_n.
        dimension: d.
        seen: How many of them do not drown in round-off.
        powers: The coefficients of g and of q in powers of u, lowest first; None where these would lose digits.
        minus_one: −1, in the precision and on the device of t.
    """

    energies: tuple[float, ...]
    dimension: int
    seen: int
    powers: tuple[tuple[Tensor, ...], ...] | None
    minus_one: Float[Tensor, ""]

    def __call__(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """f(t)."""
        if self.powers is None:
            return clenshaw(t, self.energies[: self.seen], self.dimension)
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
        energies, d = derivative_energies(self.energies, self.dimension)
        return polynomial(energies, d, self.minus_one.dtype, self.minus_one.device)


@lru_cache(maxsize=1024)
def polynomial(energies: tuple[float, ...], dimension: int, dtype: torch.dtype, device: torch.device) -> Polynomial:
    """Σ_n e_n P_n(t) in a dimension, for t of a precision."""
    e = np.array(energies)
    slopes, d_slope = derivative_energies(energies, dimension)
    size, size_of_slope = norm(energies, dimension), norm(slopes, d_slope)
    curvature = norm(*derivative_energies(slopes, d_slope))
    size, size_of_slope = max(size, size_of_slope), max(size_of_slope, curvature)
    unseen = UNSEEN * torch.finfo(dtype).eps * size
    c = _trimmed(e @ connection(dimension, len(e)), unseen)
    even, odd = (np.trim_zeros(part, "b") for part in (chebyshev.cheb2poly(c[0::2]), _powers_of_odd_part(c[1::2])))
    magnitude = np.abs(even).sum() + np.abs(odd).sum()
    # f' = 4t g'(u) + q(u) + 4t² q'(u)
    magnitude_of_slope = np.abs(odd).sum() + 4 * sum(np.abs(part) @ np.arange(len(part)) for part in (even, odd))
    safe = magnitude <= AMPLIFICATION * size and magnitude_of_slope <= AMPLIFICATION * size_of_slope

    def tensors(values: NDArray[np.floating]) -> tuple[Tensor, ...]:
        return torch.as_tensor(values if len(values) else np.zeros(1)).to(device=device, dtype=dtype).unbind()

    powers = (tensors(even), tensors(odd)) if safe else None
    return Polynomial(
        energies, dimension, len(_trimmed(e, unseen)), powers, torch.tensor(-1.0, dtype=dtype, device=device)
    )


def derivative_energies(energies: Sequence[float], dimension: int) -> tuple[tuple[float, ...], int]:
    """The energies of f' and their dimension, d + 2: e'_{n−1} = n (n+d−2)/(d−1) e_n."""
    found = tuple(slope(n, dimension) * e for n, e in enumerate(energies))[1:]
    return found or (0.0,), dimension + 2


def norm(energies: Sequence[float], dimension: int) -> float:
    """‖f‖ = √(Σ_n e_n² / N_n), the root mean square of f(ŵ · x̂) over the sphere."""
    return sqrt(sum((e * np.exp(-0.5 * log_num_harmonics(n, dimension))) ** 2 for n, e in enumerate(energies)))


def _trimmed(c: NDArray[np.float64], unseen: float) -> NDArray[np.float64]:
    """The coefficients without those at the end whose sum is not seen: neither T_k nor P_n exceeds one."""
    tails = np.cumsum(np.abs(c)[::-1])[::-1]  # Σ_{j≥k} |c_j|
    return c[: max(1, np.count_nonzero(tails > unseen))]


def _powers_of_odd_part(c: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_k c_k V_k(u) in powers of u, where T_2k+1(t) = t V_k(u): V_0 = 1, V_1 = 2u − 1, V_{k+1} = 2u V_k − V_{k−1}."""
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


def evaluated(f: Polynomial, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """f(t), with derivatives of every order."""
    return Fixed.apply(t, f) if t.requires_grad and torch.is_grad_enabled() else f(t)


class Fixed(torch.autograd.Function):
    """t ↦ f(t) for a polynomial f; its slope is kept for the backward pass, or found again to be differentiated."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, f: Polynomial) -> Tensor:
        ctx.f = f
        value, slope = f.with_slope(t)
        ctx.save_for_backward(t, slope)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        t, slope = ctx.saved_tensors
        return grad * (evaluated(ctx.f.derivative, t) if torch.is_grad_enabled() else slope), None


def with_derivative(t: Float[Tensor, "*shape"], value: Function, derivative: Function) -> Float[Tensor, "*shape"]:
    """value(t), whose gradient is derivative(t); `derivative` may itself be differentiable."""
    return _WithDerivative.apply(t, value, derivative)


class _WithDerivative(torch.autograd.Function):
    @staticmethod
    def forward(t: Tensor, value: Function, derivative: Function) -> Tensor:
        return value(t)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Function, Function], output: Tensor) -> None:
        t, _, ctx.derivative = inputs
        ctx.save_for_backward(t)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (t,) = ctx.saved_tensors
        return grad * ctx.derivative(t), None, None
