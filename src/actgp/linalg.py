"""A Cholesky decomposition that does not fail, and says what that took."""

from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

RELATIVE_JITTER = {torch.float64: 1e-10, torch.float32: 1e-6}
GROWTH = 10.0
LARGEST = 1e-2


class Cholesky(NamedTuple):
    """K + jitter · I = L Lᵀ."""

    L: Float64[Tensor, "M M"]
    jitter: float


def stable_cholesky(K: Float64[Tensor, "M M"], dtype: torch.dtype) -> Cholesky:
    """Decomposes a covariance matrix, in float64 whatever the model's precision.

    The jitter is relative to the mean of the diagonal. It starts at what the precision `dtype` of the surrounding
    computation can resolve (L⁻¹ magnifies that computation's round-off by up to jitter^(−1/2)) and grows tenfold
    until the decomposition succeeds.
    """
    scale = K.diagonal().mean().item()
    if not 0.0 < scale < float("inf"):
        raise ValueError(
            f"a covariance matrix must have a finite, positive diagonal, got mean {scale}; "
            "look for NaN or infinite parameters of the kernel or the features"
        )
    relative = RELATIVE_JITTER[dtype]
    while relative <= LARGEST:
        jitter = relative * scale
        L, info = torch.linalg.cholesky_ex(K + jitter * torch.eye(len(K), dtype=K.dtype, device=K.device))
        if int(info) == 0:
            return Cholesky(L, jitter)
        relative *= GROWTH
    raise ValueError(
        "a covariance matrix must be positive semi-definite, got one that is not, even with jitter of 1 % of its "
        "diagonal; look for non-finite off-diagonal entries"
    )
