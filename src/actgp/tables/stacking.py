"""What each model counts for in a mixture: stacking of predictive densities (Yao et al., 2018).

    max_w Σ_i log Σ_m w_m p_m(y_i) + α/M Σ_m log w_m,     Σ w_m = 1,

where p_m(y_i) is the density of a row that the model has not seen. It is concave, and each step of expectation
maximisation raises it. The prior, worth α rows that are shared equally, keeps models in that few rows speak against.
Models that count for less than a twentieth are left out in the end: what they predict differently would look like
uncertainty, and they cost as much as others.
"""

import torch
from jaxtyping import Float64
from torch import Tensor

SHARED = 1.0  # α
NUM_STEPS = 500
SMALLEST = 0.05  # of the weights


def stacking_weights(log_densities: Float64[Tensor, "N M"]) -> Float64[Tensor, " M"]:
    """w, from the log densities of left-out rows under each model; zero for those that are left out."""
    w = _maximise(log_densities)
    kept = w >= min(SMALLEST, w.max().item())
    found = torch.zeros_like(w)
    found[kept] = w[kept] if kept.all() else _maximise(log_densities[:, kept])
    return found


def _maximise(log_densities: Float64[Tensor, "N M"]) -> Float64[Tensor, " M"]:
    N, M = log_densities.shape
    p = (log_densities - log_densities.amax(1, keepdim=True)).exp()
    w = torch.full((M,), 1 / M, dtype=p.dtype, device=p.device)
    for _ in range(NUM_STEPS):
        shares = w * p / (p @ w).unsqueeze(1)  # [N, M]: of each row
        w = (shares.sum(0) + SHARED / M) / (N + SHARED)
    return w
