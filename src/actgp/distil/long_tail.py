"""Targets with a long tail, and their logarithms: y ↦ T(y), and back.

    T(y) = s log(1 + u / a),     u = s y − b,     for 0 ≤ u ≤ U,     s = 1, or −1 for a tail on the left

Below and above, T goes on as a straight line with the slope that it has there: it is defined for every y, no prediction
is the exponential of what was extrapolated, and all moments are finite. With U = 0, b = 0, a = 1 it is T(y) = y.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp.persistence import Sizes, savable

NODES = 24  # of Gauss and Hermite, for moments of y


@savable
@dataclass(frozen=True)
class LongTail:
    """T for each of P targets.

    Attributes:
        values: s, b, a and U.
    """

    SIZES: ClassVar[Sizes] = {"values": (4, "targets")}

    values: Float64[Tensor, "4 P"]

    def __post_init__(self) -> None:
        s, _, a, U = self.values
        if not (torch.isfinite(self.values).all() and (s.abs() == 1).all() and (a > 0).all() and (U >= 0).all()):
            raise ValueError(
                "a long tail must have finite values, signs of 1 or −1, a above zero and U not below, got "
                f"{self.values.tolist()}; fit again"
            )

    @classmethod
    def none(cls, num_targets: int) -> "LongTail":
        """T(y) = y."""
        one = torch.ones(num_targets, dtype=torch.float64)
        return cls(torch.stack([one, 0 * one, one, 0 * one]))

    @classmethod
    def joined(cls, parts: Sequence["LongTail"]) -> "LongTail":
        """Targets after targets."""
        return cls(torch.cat([part.values for part in parts], dim=1))

    @property
    def changes(self) -> bool:
        """Whether T is anything but T(y) = y."""
        return bool((self.values[3] > 0).any())


def shortened(y: Float[Tensor, "*rows P"], tail: Float[Tensor, "4 P"]) -> Float[Tensor, "*rows P"]:
    """T(y)."""
    s, b, a, U = tail.to(y.dtype)
    u = s * y - b
    inside = torch.minimum(u.clamp_min(0.0), U)
    return s * ((1 + inside / a).log() + (u - inside) / (a + inside))


def lengthened(t: Float[Tensor, "*rows P"], tail: Float[Tensor, "4 P"]) -> Float[Tensor, "*rows P"]:
    """T⁻¹(t)."""
    s, b, a, U = tail.to(t.dtype)
    v = s * t
    inside = torch.minimum(v.clamp_min(0.0), (1 + U / a).log())
    grown = a * inside.exp()  # a + u where T is a logarithm
    return s * (grown - a + (v - inside) * grown + b)


def log_slope(y: Float[Tensor, "*rows P"], tail: Float[Tensor, "4 P"]) -> Float[Tensor, "*rows P"]:
    """log T′(y): the density of y is that of T(y), times T′(y)."""
    s, b, a, U = tail.to(y.dtype)
    return -(a + torch.minimum((s * y - b).clamp_min(0.0), U)).log()


def moments(
    weights: Float[Tensor, "K N *P"],
    means: Float[Tensor, "K N *P"],
    variances: Float[Tensor, "K N *P"],
    tail: Float[Tensor, "*four_P"],
) -> tuple[Float[Tensor, "*rows"], Float[Tensor, "*rows"]]:
    """Mean and standard deviation of y, where T(y) is a mixture of normals."""
    x, w = (torch.from_numpy(each).to(means) for each in np.polynomial.hermite_e.hermegauss(NODES))
    x, w = (each.view(-1, *[1] * means.ndim) for each in (x, w / w.sum()))
    y = lengthened(means + variances.sqrt() * x, tail)  # [Q, K, N, *P]
    mean = (w * weights * y).sum((0, 1))
    return mean, (w * weights * (y - mean).square()).sum((0, 1)).sqrt()
