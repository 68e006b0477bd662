"""The marginals of a layer given whitened covariances.

    mean = A m,    var_p = k − Σ A² + Σ (A S_p)²,    A = Kfu L⁻ᵀ: [N, M]

S_p is block-diagonal, with a lower triangle for each group of variables that q makes independent of the others.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm


class Marginals(NamedTuple):
    """Independent Gaussians, one for each input and output."""

    mean: Float[Tensor, "N P"]
    variance: Float[Tensor, "N P"]


def conditional_marginals(
    A: Float[Tensor, "N M"], prior: Float[Tensor, " N"], mean: Float[Tensor, "M P"], *scales: Float[Tensor, "B P B"]
) -> Marginals:
    """The marginals of f given q(v).

    Args:
        A: Whitened covariances.
        prior: k(x, x).
        mean: m.
        scales: Blocks of S, rows first, S_p[i, j] at [i, p, j], so that A S_p of all outputs p is one matrix product.
    """
    variance = unexplained(A, prior).unsqueeze(-1)
    for columns, S in zip(columns_of(A, scales), scales, strict=True):
        variance = variance + vector_norm(product(columns, S), dim=-1).square()
    return Marginals(A @ mean, variance)


def unexplained(A: Float[Tensor, "N M"], prior: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """k(x, x) − Σ A²: the prior variance that no q(v) can explain; never below zero."""
    return (prior - A.square().sum(-1)).clamp_min(0.0)


def columns_of(A: Float[Tensor, "N M"], scales: Sequence[Tensor]) -> Sequence[Float[Tensor, "N B"]]:
    """Those that belong to each block."""
    return A.split([len(S) for S in scales], dim=1)


def product(A: Float[Tensor, "N B"], S: Float[Tensor, "B P B"]) -> Float[Tensor, "N P B"]:
    """A S_p for every output p."""
    return torch.mm(A, S.flatten(1)).unflatten(1, S.shape[1:])
