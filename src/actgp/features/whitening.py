"""What whitens the layers of a model, so that p(v) = N(0, I): u = D L v with Kuu = D Φ D and Φ = L Lᵀ (`units`).

With inducing points beside activated features, L whitens the features first, and then what is left of the points,

    L = [ L_u           0   ]        L_s L_sᵀ = Φ_vv − Φ_vu Φ_uu⁻¹ Φ_uv,
        [ Φ_vu L_u⁻ᵀ   L_s  ]

so that the whitened points belong to the part of f that is orthogonal to the activations. L is found in double
precision. Layers that are alike, with as many units of as many inputs and the same shapes, are whitened in one stack:
on matrices as small as these, calling an operation costs as much as carrying it out.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float64
from torch import Tensor

from actgp.features.base import InducingFeatures
from actgp.features.units import Units
from actgp.linalg import InverseCholesky

LARGEST_NORM = 1e12  # κ(1), beyond which products of L⁻ᵀ and L⁻¹ leave the range of float32


class Whitening(NamedTuple):
    """What a layer needs to know besides x.

    Attributes:
        R: L⁻¹; of Kuu itself where there are no units.
        dtype: The precision of Kuf.
        units: What Kuf consists of, with directions of that precision; None for features that are not of this kind.
    """

    R: Float64[Tensor, "M M"]
    dtype: torch.dtype
    units: Units | None


def whitening(features: InducingFeatures, kernel: Kernel, dtype: torch.dtype = torch.float64) -> Whitening:
    """What whitens one layer; Kuf in a precision, or in float64 where that will not do."""
    return whitenings([(features, kernel)], dtype)[0]


def inverse_factor(features: InducingFeatures, kernel: Kernel) -> Float64[Tensor, "M M"]:
    """(D L)⁻¹ = L⁻¹ D⁻¹, the inverse of the Cholesky factor of Kuu itself, in the same whitened variables."""
    units, R = features.units(kernel), whitening(features, kernel).R
    return R if units is None else R * units.variance.double().sqrt() / units.amplitudes()


def whitenings(pairs: Sequence[tuple[InducingFeatures, Kernel]], dtype: torch.dtype) -> list[Whitening]:
    """The whitening of each pair of features and kernel, of those that are alike in the precision of the neediest."""
    groups: dict[Any, list[tuple[int, Units]]] = {}
    found: dict[int, Whitening] = {}
    for i, (features, kernel) in enumerate(pairs):
        units = features.units(kernel)
        if units is None:
            R, own = InverseCholesky.apply(dtype, features.Kuu(kernel))
            found[i] = Whitening(R, own, None)
        else:
            groups.setdefault(_kind(units) or i, []).append((i, units))
    for group in groups.values():
        places, alike = zip(*group, strict=True)
        found |= zip(places, _whitened(alike, dtype), strict=True)
    return [found[i] for i in range(len(pairs))]


def _kind(units: Units) -> Any:
    """The same for units between which φ are the same functions; None for those that are like no others."""
    shapes = units.shapes
    if shapes.match is None or not shapes.fixed:
        return None
    return shapes.match, units.vectors.shape, type(shapes.kernel)  # one object for the same spectra


def _whitened(alike: Sequence[Units], dtype: torch.dtype) -> list[Whitening]:
    units = (_stack(alike) if len(alike) > 1 else alike[0]).normalised()
    match = units.shapes.match
    wanted = torch.float64 if match is not None and match.norm > LARGEST_NORM else dtype
    R, own = InverseCholesky.apply(wanted, *units.Phi())
    units = units.to(own)
    if len(alike) == 1:
        return [Whitening(R, own, units)]
    parts = zip(R, units.lengthscale, units.variance, units.vectors, strict=True)
    return [Whitening(R, own, Units(scale, v, vectors, units.shapes)) for R, scale, v, vectors in parts]


def _stack(alike: Sequence[Units]) -> Units:
    lengthscales, variances, vectors = zip(*((u.lengthscale, u.variance, u.vectors) for u in alike), strict=True)
    return Units(torch.stack(lengthscales), torch.stack(variances), torch.stack(vectors), alike[0].shapes)
