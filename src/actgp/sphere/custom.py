"""A user's shape function: checked once, its energies computed once for each dimension."""

from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import torch
from torch import Tensor

from actgp.sphere import quadrature


@dataclass(frozen=True)
class CustomShape:
    """s(t) in torch and, if it is to be exact, in mpmath."""

    function: Callable[[Tensor], Tensor]
    exact: Callable[[mpmath.mpf], mpmath.mpf] | None = None

    def __post_init__(self) -> None:
        t = torch.linspace(-1.0, 1.0, 9, dtype=torch.float64)
        if not callable(self.function):
            raise TypeError(
                f"a shape function must be callable, got {type(self.function).__name__}; pass e.g. torch.sin"
            )
        s = self.function(t)
        if not isinstance(s, Tensor) or s.shape != t.shape or not torch.isfinite(s).all():
            raise ValueError(
                "a shape function must map a tensor of values in [−1, 1] to finite values of the same shape, "
                f"got {s!r} for {t.tolist()}; write it elementwise, with torch operations"
            )
        if self.exact is not None:
            self._check_exact(self.exact, t, s)

    @staticmethod
    def _check_exact(exact: Callable[[mpmath.mpf], mpmath.mpf], t: Tensor, s: Tensor) -> None:
        values = torch.tensor([float(exact(mpmath.mpf(x))) for x in t.tolist()], dtype=torch.float64)
        if not torch.allclose(values, s, rtol=1e-8, atol=1e-8 * float(s.abs().max())):
            raise ValueError(
                f"exact must be the same function as function, got {values.tolist()} against {s.tolist()} at "
                f"{t.tolist()}; correct one of them"
            )
        with mpmath.workdps(50):
            t0 = mpmath.mpf(1) / 3
            here, near, very_near = exact(t0), exact(t0 + mpmath.ldexp(1, -20)), exact(t0 + mpmath.ldexp(1, -80))
        if here != near and here == very_near:
            raise ValueError(
                "exact must be right to mpmath's working precision, got a function that cannot tell 1/3 from "
                "1/3 + 2^−80, as in double precision; use mpmath's functions instead of math's"
            )

    def energies(self, dimension: int, num_levels: int) -> tuple[float, ...]:
        if self.exact is not None:
            return quadrature.energies(self.exact, dimension, num_levels)
        return quadrature.energies_from_floats(_AtFloat(self.function), dimension, num_levels)


@dataclass(frozen=True)
class _AtFloat:
    """A function of a tensor as a function of a float."""

    function: Callable[[Tensor], Tensor]

    def __call__(self, t: float) -> float:
        return self.function(torch.tensor([t], dtype=torch.float64)).item()
