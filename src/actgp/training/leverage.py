"""How far a row pulls its own fitted value: leverages, by which errors on training rows become those on new ones.

The last layer of a network is a linear regression of y on features z. Where a ridge regression with penalty λ is fitted
to all rows, what it would miss y_i by without row i is known without fitting it again:

    r_i / (1 − l_i),     l_i = 1/N + φ_iᵀ (Φᵀ Φ + λ I)⁻¹ φ_i,     φ_i = z_i − z̄

The network's residuals are divided by the same 1 − l_i. γ = Σ_i l_i is the effective number of parameters. λ is that of
the largest evidence, with the variance a² of the noise at its best:

    y − ȳ ~ N(0, a² (I + Φ Φᵀ / λ)),     â² = (yᵀy − bᵀ (Λ + λ)⁻¹ b) / N,     Φᵀ Φ = Q Λ Qᵀ,   b = Qᵀ Φᵀ y
"""

import torch
from jaxtyping import Float64
from torch import Tensor

PENALTIES = torch.logspace(-8, 2, 61, dtype=torch.float64)  # λ, relative to the mean of Λ
LARGEST_LEVERAGE = 0.95
TINY = 1e-30


@torch.no_grad()
def ridge_leverages(z: Float64[Tensor, "N D"], y: Float64[Tensor, "N P"]) -> Float64[Tensor, " N"]:
    """l_i of each row; outputs have their own noise and share the penalty."""
    N = len(z)
    Phi, y = z - z.mean(0), y - y.mean(0)
    Lambda, Q = torch.linalg.eigh(Phi.T @ Phi)
    Lambda = Lambda.clamp_min(0)
    penalties = PENALTIES.to(z) * Lambda.mean().clamp_min(TINY)  # [K]
    shrunk = 1 / (Lambda + penalties[:, None])  # [K, D]: (Λ + λ)⁻¹
    explained = shrunk @ (Q.T @ (Phi.T @ y)).square()  # [K, P]: bᵀ (Λ + λ)⁻¹ b
    noise = (y.square().sum(0) - explained).clamp_min(TINY) / N  # â²
    log_det = torch.log1p(Lambda / penalties[:, None]).sum(1)  # [K]: log |I + Φ Φᵀ / λ|
    best = (N * noise.log() + log_det[:, None]).sum(1).argmin()  # −2 log evidence, but for a constant
    return 1 / N + (Phi @ Q).square() @ shrunk[best]


def without_row(r: Float64[Tensor, "N P"], leverages: Float64[Tensor, " N"]) -> Float64[Tensor, "N P"]:
    """r_i / (1 − l_i), with leverages of at most .95."""
    return r / (1 - leverages.clamp_max(LARGEST_LEVERAGE)).unsqueeze(-1)
