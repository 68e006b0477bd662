"""A Cholesky decomposition that does not fail, and says what that took."""

from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

# The same for models of both precisions: whitened parameters mean what they mean only together with their L. In low
# dimension more of it costs accuracy; less of it, digits, since L⁻¹ magnifies round-off by up to jitter^(−1/2).
RELATIVE_JITTER = 1e-10
SMALLEST = 1e-12
GROWTH = 10.0
LARGEST = 1e-2


class Cholesky(NamedTuple):
    """K + jitter · I = L Lᵀ."""

    L: Float64[Tensor, "M M"]
    jitter: float


def stable_cholesky(K: Float64[Tensor, "M M"], relative_jitter: float = RELATIVE_JITTER) -> Cholesky:
    """Decomposes a covariance matrix.

    Args:
        K: The matrix, in float64 whatever the precision of the model around it.
        relative_jitter: What is added to the diagonal at first, relative to its mean; it grows tenfold until the
            decomposition succeeds.
    """
    scale = K.diagonal().mean().item()
    if not 0.0 < scale < float("inf"):
        raise ValueError(
            f"a covariance matrix must have a finite, positive diagonal, got mean {scale}; "
            "look for NaN or infinite parameters of the kernel or the features"
        )
    while relative_jitter <= LARGEST:
        jitter = relative_jitter * scale
        L, info = torch.linalg.cholesky_ex(K + jitter * torch.eye(len(K), dtype=K.dtype, device=K.device))
        if int(info) == 0:
            return Cholesky(L, jitter)
        relative_jitter = max(SMALLEST, relative_jitter * GROWTH)
    raise ValueError(
        "a covariance matrix must be positive semi-definite, got one that is not, even with jitter of 1 % of its "
        "diagonal; look for non-finite off-diagonal entries"
    )
