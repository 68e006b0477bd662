"""The variational distribution of whitened inducing variables.

u = L v with L Lᵀ = Kuu, prior p(v) = N(0, I), and one Gaussian for each of P outputs:

    q(v_p) = N(m_p, S_p S_pᵀ)
    KL     = ½ Σ_p (‖S_p‖² + ‖m_p‖² − M − 2 Σ_i log S_p[i, i])
"""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.linalg import differentiated


class Scales(NamedTuple):
    """S of all outputs, for products with it."""

    rows_first: Float[Tensor, "M P M"]  # S_p[i, j] at [i, p, j]
    square: Float[Tensor, ""]  # Σ_p ‖S_p‖²


class WhitenedGaussian(nn.Module):
    """q(v), starting at the prior: m = 0, S = I.

    Args:
        num_inducing: M.
        num_outputs: P.

    Attributes:
        mean: m, [M, P].
        raw_scale_tril: [P, M, M]: the strict lower triangle of S, and the logarithm of its diagonal.
    """

    def __init__(self, num_inducing: int, num_outputs: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(num_inducing, num_outputs))
        self.raw_scale_tril = nn.Parameter(torch.zeros(num_outputs, num_inducing, num_inducing))

    @property
    def scale_tril(self) -> Float[Tensor, "P M M"]:
        """S_p, lower triangular with a positive diagonal."""
        return self.scales().rows_first.transpose(0, 1)

    def scales(self) -> Scales:
        """S, and its square, from one pass over the parameters."""
        return Scales(*ScaleTril.apply(self.raw_scale_tril))

    @torch.no_grad()
    def assign(self, mean: Float[Tensor, "M P"], scale_tril: Float[Tensor, "P M M"]) -> None:
        """Sets m and S."""
        diagonal = scale_tril.diagonal(dim1=-2, dim2=-1)
        if mean.shape != self.mean.shape or scale_tril.shape != self.raw_scale_tril.shape:
            raise ValueError(
                f"q(v) must have mean {list(self.mean.shape)} and scale_tril {list(self.raw_scale_tril.shape)}, got "
                f"{list(mean.shape)} and {list(scale_tril.shape)}; reshape them"
            )
        if not (diagonal > 0).all():
            raise ValueError(
                f"scale_tril must have a positive diagonal, got a smallest entry of {diagonal.min().item():.3g}; "
                "pass a Cholesky factor of the covariance"
            )
        self.mean.copy_(mean)
        self.raw_scale_tril.copy_(scale_tril.tril(-1) + torch.diag_embed(diagonal.log()))

    def kl(self, scales: Scales | None = None) -> Float[Tensor, ""]:
        """KL(q(v) ‖ N(0, I)), summed over outputs; from S, where that has been computed."""
        square = (self.scales() if scales is None else scales).square
        log_diagonal = self.raw_scale_tril.diagonal(dim1=-2, dim2=-1)
        return 0.5 * (square + self.mean.square().sum() - self.mean.numel()) - log_diagonal.sum()


class ScaleTril(torch.autograd.Function):
    """raw ↦ S, ‖S‖²: exponentiates the diagonal and drops what is above it; so does the gradient."""

    @staticmethod
    def forward(ctx: Any, raw: Tensor) -> tuple[Tensor, Tensor]:
        P, M, _ = raw.shape
        S = torch.mul(raw.transpose(0, 1), _lower(M, raw.dtype, raw.device).unsqueeze(1), out=raw.new_empty(M, P, M))
        S.diagonal(dim1=0, dim2=2).exp_()
        ctx.save_for_backward(raw, S)
        return S, torch.dot(S.view(-1), S.view(-1))

    @staticmethod
    def backward(ctx: Any, S_grad: Tensor, square_grad: Tensor) -> Tensor | None:
        raw, S = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiated(_plainly, (raw,), (S_grad, square_grad))[0]
        grad = torch.addcmul(S_grad, S, 2 * square_grad)  # ∂‖S‖² = 2 S
        grad.diagonal(dim1=0, dim2=2).mul_(S.diagonal(dim1=0, dim2=2))
        return torch.mul(grad.transpose(0, 1), _lower(raw.shape[1], raw.dtype, raw.device), out=torch.empty_like(raw))


def _plainly(raw: Tensor) -> tuple[Tensor, Tensor]:
    """The same in operations that can be differentiated any number of times."""
    S = raw.tril(-1) + torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1).exp())
    return S.transpose(0, 1), S.square().sum()


@lru_cache(maxsize=64)
def _lower(size: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "M M"]:
    """Ones on and below the diagonal. A product with them is several times faster than tril() of a batch."""
    return torch.ones(size, size, dtype=dtype, device=device).tril()
