"""The variational distribution of whitened inducing variables.

u = L v with L Lᵀ = Kuu, prior p(v) = N(0, I), and one Gaussian for each of P outputs:

    q(v_p) = N(m_p, S_p S_pᵀ)
    KL     = ½ Σ_p (‖S_p‖² + ‖m_p‖² − M − 2 Σ_i log S_p[i, i])
"""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.linalg import differentiated, lower_triangle


class WhitenedGaussian(nn.Module):
    """q(v), starting at the prior: m = 0, S = I.

    Args:
        num_inducing: M.
        num_outputs: P.
        blocks: Sizes of groups of variables that are independent of each other; one group by default.
        num_means: How many of the means, from the first on, may differ from zero; all by default.

    Attributes:
        mean: m, [M, P].
        raw_scale_tril: [P, M, M]: the strict lower triangle of S, and the logarithm of its diagonal.
    """

    def __init__(
        self,
        num_inducing: int,
        num_outputs: int,
        blocks: tuple[int, ...] | None = None,
        num_means: int | None = None,
    ) -> None:
        super().__init__()
        self.blocks = (num_inducing,) if blocks is None else blocks
        self.num_means = num_inducing if num_means is None else num_means
        self.mean = nn.Parameter(torch.zeros(num_inducing, num_outputs))
        self.raw_scale_tril = nn.Parameter(torch.zeros(num_outputs, num_inducing, num_inducing))

    @property
    def scale_tril(self) -> Float[Tensor, "P M M"]:
        """S_p, lower triangular with a positive diagonal."""
        return self.scales_and_kl()[0].transpose(0, 1)

    def scales_and_kl(self) -> tuple[Float[Tensor, "M P M"], Float[Tensor, ""]]:
        """S, its rows first, S_p[i, j] at [i, p, j], and the KL: from one pass over the parameters."""
        return ScalesAndKL.apply(self.mean, self.raw_scale_tril, self.blocks)

    def means(self) -> Float[Tensor, "M P"]:
        """m, with zeros where it has to be zero: no gradient goes there."""
        if self.num_means == len(self.mean):
            return self.mean
        return nn.functional.pad(self.mean[: self.num_means], (0, 0, 0, len(self.mean) - self.num_means))

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
        inside = lower_triangle(self.blocks, scale_tril.dtype, scale_tril.device)
        self.raw_scale_tril.copy_((scale_tril * inside).tril(-1) + torch.diag_embed(diagonal.log()))

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(v) ‖ N(0, I)), summed over outputs."""
        return self.scales_and_kl()[1]


class ScalesAndKL(torch.autograd.Function):
    """(m, raw) ↦ S, KL: S exponentiates the diagonal of raw and drops what is above it; so does the gradient."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, raw: Tensor, blocks: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        P, M, _ = raw.shape
        ctx.inside = lower_triangle(blocks, raw.dtype, raw.device)
        S = torch.mul(raw.transpose(0, 1), ctx.inside.unsqueeze(1), out=raw.new_empty(M, P, M))
        diagonal = S.diagonal(dim1=0, dim2=2)
        log_determinants = diagonal.sum()
        diagonal.exp_()
        ctx.save_for_backward(mean, raw, S)
        squares = torch.dot(S.view(-1), S.view(-1)) + torch.dot(mean.reshape(-1), mean.reshape(-1)) - mean.numel()
        return S, 0.5 * squares - log_determinants

    @staticmethod
    def backward(ctx: Any, S_grad: Tensor, kl_grad: Tensor) -> tuple[Tensor | None, ...]:
        mean, raw, S = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = differentiated(partial(_plainly, inside=ctx.inside), (mean, raw), (S_grad, kl_grad))
            return *again, None
        grad = torch.addcmul(S_grad, S, kl_grad)  # ∂ ½‖S‖² = S
        grad.diagonal(dim1=0, dim2=2).mul_(S.diagonal(dim1=0, dim2=2)).sub_(kl_grad)
        return kl_grad * mean, torch.mul(grad.transpose(0, 1), ctx.inside, out=torch.empty_like(raw)), None


def _plainly(mean: Tensor, raw: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
    """The same in operations that can be differentiated any number of times."""
    log_diagonal = raw.diagonal(dim1=-2, dim2=-1)
    S = (raw * inside).tril(-1) + torch.diag_embed(log_diagonal.exp())
    kl = 0.5 * (S.square().sum() + mean.square().sum() - mean.numel()) - log_diagonal.sum()
    return S.transpose(0, 1), kl
