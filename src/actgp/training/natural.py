"""Natural gradient steps on q(v) = N(m, S Sᵀ).

The gradient is taken where q looks like a standard normal: with local coordinates m + S a, S (I + Φ), the Fisher metric
is the identity at a = 0, Φ = 0, and the gradients of a loss are

    ∂ℓ/∂a = Sᵀ ∂ℓ/∂m,     ∂ℓ/∂Φ = ⌊Sᵀ ∂ℓ/∂S⌋     (⌊·⌋: the lower triangle with half its diagonal).

A step goes down these, no farther than `LARGEST_STEP`, and stays on lower triangles with a positive diagonal, since the
diagonal moves through its logarithm. Nothing is inverted or decomposed.
"""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.layers import WhitenedGaussian
from actgp.linalg import lower_triangle

LARGEST_STEP = 1.0  # in local coordinates, over all outputs of a layer: standard deviations of q


class NaturalGradient(torch.optim.Optimizer):
    """Plain natural gradient descent, without momentum, on the variational distributions of layers.

    Args:
        distributions: q(v) of each layer.
        lr: The length γ of a step: 1 would take a conjugate model to its optimum.
    """

    def __init__(self, distributions: Iterable[WhitenedGaussian], lr: float) -> None:
        groups = [{"params": [q.mean, q.raw_scale_tril], "blocks": q.blocks} for q in distributions]
        super().__init__(groups, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step for each layer."""
        if closure is not None:
            raise ValueError("a closure is not evaluated here, got one; compute the gradients before the step")
        for group in self.param_groups:
            mean, raw = group["params"]
            if mean.grad is not None and raw.grad is not None:
                _descend(mean, raw, mean.grad, raw.grad, group["lr"], group["blocks"])


def _descend(
    mean: Float[Tensor, "M P"],
    raw: Float[Tensor, "P M M"],
    mean_grad: Float[Tensor, "M P"],
    raw_grad: Float[Tensor, "P M M"],
    rate: float,
    blocks: tuple[int, ...],
) -> None:
    lower = lower_triangle(blocks, raw.dtype, raw.device)
    diagonal = _diagonal(raw).exp()  # [P, M]
    S = raw * lower
    _diagonal(S).copy_(diagonal)
    gradient = raw_grad.clone()  # a lower triangle, too
    _diagonal(gradient).div_(diagonal)  # ∂ℓ/∂S, from that by log S_ii: [P, M, M]
    phi = (S.mT @ gradient).mul_(lower)
    _diagonal(phi).mul_(0.5)
    a = S.mT @ mean_grad.T.unsqueeze(-1)  # [P, M, 1]
    length = torch.hypot(torch.linalg.vector_norm(phi), torch.linalg.vector_norm(a)).item()
    rate = min(rate, LARGEST_STEP / max(length, torch.finfo(raw.dtype).tiny))
    mean -= rate * (S @ a).squeeze(-1).T
    # S (I − γ Φ), with exp(−γ Φ_ii) on the diagonal of the factor
    log_factor = -rate * _diagonal(phi)
    step = phi.mul_(-rate)
    _diagonal(step).copy_(log_factor.exp())
    log_diagonal = _diagonal(raw) + log_factor
    torch.bmm(S, step, out=raw)
    _diagonal(raw).copy_(log_diagonal)


def _diagonal(matrices: Tensor) -> Tensor:
    return matrices.diagonal(dim1=-2, dim2=-1)
