"""Natural gradient steps on q(v) = N(m, S Sᵀ).

The gradient is taken in local coordinates (a, Φ), Φ a lower triangle, in which q looks like a standard normal: its mean
is m + S a, its factor S (I + Φ). At a = 0, Φ = 0 the Fisher metric is one, but two on the diagonal of Φ, since

    KL(q(a, Φ) ‖ q(0, 0)) = ½ (‖a‖² + ‖Φ‖² + Σ_i Φ_ii²) + terms of third order.

The natural gradient of a loss ℓ is its gradient divided by the metric:

    Sᵀ ∂ℓ/∂m  for a,     ⌊Sᵀ ∂ℓ/∂S⌋  for Φ     (⌊·⌋: the lower triangle with half its diagonal).

A step goes down these, no farther than `LARGEST_STEP`, and stays on lower triangles with a positive diagonal, since the
diagonal moves through its logarithm. Nothing is inverted or decomposed.
"""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.layers import WhitenedGaussian
from actgp.layers.variational import diagonal_blocks
from actgp.linalg import lower_triangle

LARGEST_STEP = 1.0  # in local coordinates, over all outputs of a layer: standard deviations of q


class NaturalGradient(torch.optim.Optimizer):
    """Plain natural gradient descent, without momentum, on the variational distributions of layers.

    Args:
        distributions: q(v) of each layer.
        lr: The length γ of a step. 1 is Newton's step for a conjugate model: near the optimum, each squares the error.
    """

    def __init__(self, distributions: Iterable[WhitenedGaussian], lr: float) -> None:
        groups = [{"params": [q.raw_mean, q.raw_scale_tril], "blocks": q.blocks} for q in distributions]
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
    raws, raw_grads = (diagonal_blocks(x, blocks) for x in (raw, raw_grad))
    means, mean_grads = mean.split(blocks), mean_grad.split(blocks)
    directions = [_local(*parts) for parts in zip(raws, mean_grads, raw_grads, strict=True)]
    lengths = [torch.linalg.vector_norm(x) for _, a, phi in directions for x in (a, phi)]
    length = torch.linalg.vector_norm(torch.stack(lengths)).item()
    rate = min(rate, LARGEST_STEP / max(length, torch.finfo(raw.dtype).tiny))
    for m, block, (S, a, phi) in zip(means, raws, directions, strict=True):
        m.sub_((S @ a).squeeze(-1).T, alpha=rate)
        # S (I − γ Φ), with exp(−γ Φ_ii) on the diagonal of the factor
        log_factor = -rate * _diagonal(phi)
        step = phi.mul_(-rate)
        _diagonal(step).copy_(log_factor.exp())
        log_diagonal = _diagonal(block) + log_factor
        block.copy_(S @ step)
        _diagonal(block).copy_(log_diagonal)


def _local(
    raw: Float[Tensor, "P B B"], mean_grad: Float[Tensor, "B P"], raw_grad: Float[Tensor, "P B B"]
) -> tuple[Float[Tensor, "P B B"], Float[Tensor, "P B 1"], Float[Tensor, "P B B"]]:
    """S, and the natural gradients for a and Φ."""
    lower = lower_triangle(raw.shape[-1], raw.dtype, raw.device)
    diagonal = _diagonal(raw).exp()  # [P, B]
    S = raw * lower
    _diagonal(S).copy_(diagonal)
    gradient = raw_grad.clone(memory_format=torch.contiguous_format)  # a lower triangle, too
    _diagonal(gradient).div_(diagonal)  # ∂ℓ/∂S, from that by log S_ii
    phi = (S.mT @ gradient).mul_(lower)
    _diagonal(phi).mul_(0.5)
    return S, S.mT @ mean_grad.T.unsqueeze(-1), phi


def _diagonal(matrices: Tensor) -> Tensor:
    return matrices.diagonal(dim1=-2, dim2=-1)
