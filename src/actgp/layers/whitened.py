"""The variational distribution of whitened inducing variables.

u = L v with L Lᵀ = Kuu, prior p(v) = N(0, I), and one Gaussian for each of P outputs:

    q(v_p) = N(m_p, S_p S_pᵀ)
    KL     = ½ Σ_p (‖S_p‖² + ‖m_p‖² − M − 2 Σ_i log S_p[i, i])
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


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
        return ScaleTril.apply(self.raw_scale_tril)

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

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(v) ‖ N(0, I)), summed over outputs."""
        log_diagonal = self.raw_scale_tril.diagonal(dim1=-2, dim2=-1)
        squares = self.raw_scale_tril.tril(-1).square().sum() + (2 * log_diagonal).exp().sum()  # ‖S‖²
        return 0.5 * (squares + self.mean.square().sum() - self.mean.numel() - 2 * log_diagonal.sum())


class ScaleTril(torch.autograd.Function):
    """Exponentiates the diagonal and drops what is above it; so does the gradient."""

    @staticmethod
    def forward(raw: Tensor) -> Tensor:
        S = raw.tril()
        S.diagonal(dim1=-2, dim2=-1).exp_()
        return S

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (S,) = ctx.saved_tensors
        diagonal = (grad * S).diagonal(dim1=-2, dim2=-1)
        return grad.tril(-1) + torch.diag_embed(diagonal)
