"""Bayesian linear regression on whitened inducing variables: q(u), and what each row is predicted as by all others.

    r_i = g_i + ε_i,     g = √v A u,     u ~ N(0, I),     ε_i ~ N(0, σ² / W_i)

With Aᵀ W A = Q Λ Qᵀ and b = Qᵀ Aᵀ W r the posterior is exact,

    q(u) = N(m, S Sᵀ),     m = √v/σ² Q (s ∘ b),     S Sᵀ = Q diag(s) Qᵀ,     s = 1 / (1 + v Λ / σ²),

so that row i has mean f_i = v/σ² (AQ)_i (s ∘ b) and variance c_i = v Σ_j (AQ)²_ij s_j. Its leverage is
l_i = W_i c_i / σ², and if it is left out, they are

    r_i − (r_i − f_i) / (1 − l_i)     and     c_i / (1 − l_i).

v and σ² may change, and nothing is decomposed again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp.linalg import posterior_scale

SMALLEST_REST = 1e-9  # of 1 − l, beside round-off


class Given(NamedTuple):
    """Rows to learn from.

    Attributes:
        A: Whitened covariances, at v = 1.
        r: What is observed.
        weights: W.
    """

    A: Float64[Tensor, "N M"]
    r: Float64[Tensor, "N P"]
    weights: Float64[Tensor, " N"]


class Regression(NamedTuple):
    """What rows say of u: Aᵀ W A = Q Λ Qᵀ, and b = Qᵀ Aᵀ W r."""

    Q: Float64[Tensor, "M M"]
    Lambda: Float64[Tensor, " M"]
    b: Float64[Tensor, "M P"]


def regress(parts: Sequence[Given]) -> Regression:
    """Sums over all rows of all parts."""
    AWA = torch.stack([A.T @ (W[:, None] * A) for A, _, W in parts]).sum(0)
    AWr = torch.stack([A.T @ (W[:, None] * r) for A, r, W in parts]).sum(0)
    Lambda, Q = torch.linalg.eigh(AWA)
    return Regression(Q, Lambda.clamp_min(0), Q.T @ AWr)


class Posterior(NamedTuple):
    """m and S of q(u)."""

    mean: Float64[Tensor, "M P"]
    scale_tril: Float64[Tensor, "M M"]


def posterior(regression: Regression, v: Tensor, noise: Tensor) -> Posterior:
    """q(u) given all rows.

    Args:
        regression: Of all rows.
        v: As above.
        noise: σ².
    """
    Q, Lambda, b = regression
    ratio = v / noise
    m = v.sqrt() / noise * Q @ (b / (1 + ratio * Lambda).unsqueeze(-1))
    return Posterior(m, posterior_scale(ratio * (Q * Lambda) @ Q.T))


def leave_one_out(
    regression: Regression, row: Given, AQ: Float64[Tensor, "N M"], v: Tensor, noise: Tensor
) -> tuple[Float64[Tensor, "N P"], Float64[Tensor, " N"]]:
    """Mean and variance of g at each row of a part, given all rows but this one.

    Args:
        regression: Of all rows.
        row: The part; where its weights are zero, it is not in the regression, and nothing is left out.
        AQ: The product of its A with Q.
        v: As above.
        noise: σ².
    """
    s = 1 / (1 + v / noise * regression.Lambda)
    mean = v / noise * AQ @ (s.unsqueeze(-1) * regression.b)
    variance = v * AQ.square() @ s
    left = (1 - row.weights * variance / noise).clamp_min(SMALLEST_REST)  # 1 − l
    return row.r - (row.r - mean) / left.unsqueeze(-1), variance / left
