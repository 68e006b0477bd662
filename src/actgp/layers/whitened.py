"""The variational distribution of whitened inducing variables.

u = L v with L Lᵀ = Kuu, prior p(v) = N(0, I), and one Gaussian for each of P outputs:

    q(v_p) = N(m_p, S_p S_pᵀ)
    KL     = ½ Σ_p (‖S_p‖² + ‖m_p‖² − M − 2 Σ_i log S_p[i, i])

Where variables come in groups that are independent under q, such as hidden units and inducing points, S_p is
block-diagonal. Layers work with panels of it, a few columns each, without the rows above the diagonal block in them:
then hardly anything is multiplied by the zeros of a triangle.
"""

from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.linalg import differentiated, lower_triangle

Scales = tuple[Float[Tensor, "R P w"], ...]  # panels of S, rows first: S_p[i, j] at [i, p, j]

PANEL = 64  # columns of a panel
WORTHWHILE = 512  # columns of a block, of all outputs: with fewer, panels cost more than they save


class Panel(NamedTuple):
    """Columns from `start` on, and rows from there to the end of their block."""

    start: int
    width: int
    end: int

    def of(self, matrices: Float[Tensor, "P M M"]) -> Float[Tensor, "P R w"]:
        """A view of it."""
        return matrices[:, self.start : self.end, self.start : self.start + self.width]


@lru_cache(maxsize=64)
def panels_of(blocks: tuple[int, ...], num_outputs: int) -> tuple[Panel, ...]:
    """The panels that together are the lower triangles of blocks."""
    found = []
    for begin, end in pairwise(accumulate(blocks, initial=0)):
        width = PANEL if (end - begin) * num_outputs >= WORTHWHILE else end - begin
        found += [Panel(start, min(width, end - start), end) for start in range(begin, end, width)]
    return tuple(found)


class WhitenedGaussian(nn.Module):
    """q(v), starting at the prior: m = 0, S = I.

    Args:
        num_inducing: M.
        num_outputs: P.
        blocks: Sizes of groups of variables that are independent of each other; one group by default.
        num_means: How many of the means, from the first on, may differ from zero; all by default.

    Attributes:
        mean: m, [M, P].
        raw_scale_tril: [P, M, M]: the strict lower triangle of S, and the logarithm of its diagonal; entries outside
            the blocks are not used.
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
        """S_p, lower triangular with a positive diagonal, and zero outside the blocks."""
        return _scale_tril(self.raw_scale_tril, self.blocks)

    def scales_and_kl(self) -> tuple[Scales, Float[Tensor, ""]]:
        """S in panels, and the KL: from one pass over the parameters."""
        *scales, kl = ScalesAndKL.apply(self.means(), self.raw_scale_tril, self.blocks)
        return tuple(scales), kl

    def means(self) -> Float[Tensor, "M P"]:
        """m, with zeros where it has to be zero: no gradient goes there."""
        if self.num_means == len(self.mean):
            return self.mean
        return nn.functional.pad(self.mean[: self.num_means], (0, 0, 0, len(self.mean) - self.num_means))

    @torch.no_grad()
    def assign(self, mean: Float[Tensor, "M P"], scale_tril: Float[Tensor, "P M M"]) -> None:
        """Sets m and S; what S has above the diagonal or outside the blocks is dropped."""
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
        self.raw_scale_tril.zero_()
        for raw, S in zip(*(diagonal_blocks(x, self.blocks) for x in (self.raw_scale_tril, scale_tril)), strict=True):
            raw.copy_(S.tril(-1))
        self.raw_scale_tril.diagonal(dim1=-2, dim2=-1).copy_(diagonal.log())

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(v) ‖ N(0, I)), summed over outputs."""
        return self.scales_and_kl()[1]


class ScalesAndKL(torch.autograd.Function):
    """(m, raw) ↦ panels of S, KL: S has the exponential of raw's diagonal, and zeros above it."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, raw: Tensor, blocks: tuple[int, ...]) -> tuple[Tensor, ...]:
        scales, squares = [], []
        for panel in panels_of(blocks, len(raw)):
            part = panel.of(raw).transpose(0, 1)  # [R, P, w]
            S = _masked(part, raw.new_empty(part.shape))
            S.diagonal(dim1=0, dim2=2).exp_()
            squares.append(torch.dot(S.view(-1), S.view(-1)))
            scales.append(S)
        length = _sum(squares) + torch.dot(mean.reshape(-1), mean.reshape(-1)) - mean.numel()
        ctx.blocks = blocks
        ctx.save_for_backward(mean, raw, *scales)
        return *scales, 0.5 * length - raw.diagonal(dim1=1, dim2=2).sum()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mean, raw, *scales = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *differentiated(partial(_plainly, blocks=ctx.blocks), (mean, raw), grads), None
        *S_grads, kl_grad = grads
        raw_grad = torch.empty_like(raw) if len(scales) == 1 else torch.zeros_like(raw)
        for S, S_grad, panel in zip(scales, S_grads, panels_of(ctx.blocks, len(raw)), strict=True):
            grad = torch.addcmul(S_grad, S, kl_grad)  # ∂ ½‖S‖² = S
            grad.diagonal(dim1=0, dim2=2).mul_(S.diagonal(dim1=0, dim2=2)).sub_(kl_grad)
            _masked(grad, panel.of(raw_grad).transpose(0, 1))
        return kl_grad * mean, raw_grad, None


def diagonal_blocks(matrices: Float[Tensor, "P M M"], blocks: tuple[int, ...]) -> list[Float[Tensor, "P B B"]]:
    """Views of the blocks on the diagonal."""
    ends = list(accumulate(blocks, initial=0))
    return [matrices[:, start:end, start:end] for start, end in pairwise(ends)]


def _masked(panel: Float[Tensor, "R P w"], out: Float[Tensor, "R P w"]) -> Float[Tensor, "R P w"]:
    """A panel with zeros above the diagonal, which goes through its first w rows."""
    width = panel.shape[2]
    triangle = lower_triangle(width, panel.dtype, panel.device).unsqueeze(1)
    torch.mul(panel[:width], triangle, out=out[:width])
    if len(panel) > width:
        out[width:].copy_(panel[width:])
    return out


def _sum(terms: list[Tensor]) -> Tensor:
    return sum(terms[1:], start=terms[0])


def _scale_tril(raw: Float[Tensor, "P M M"], blocks: tuple[int, ...]) -> Float[Tensor, "P M M"]:
    inside = torch.block_diag(*(lower_triangle(size, raw.dtype, raw.device) for size in blocks))
    return (raw * inside).tril(-1) + torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1).exp())


def _plainly(mean: Tensor, raw: Tensor, blocks: tuple[int, ...]) -> tuple[Tensor, ...]:
    """The same in operations that can be differentiated any number of times."""
    S = _scale_tril(raw, blocks)
    kl = 0.5 * (S.square().sum() + mean.square().sum() - mean.numel()) - raw.diagonal(dim1=-2, dim2=-1).sum()
    return *(panel.of(S).transpose(0, 1) for panel in panels_of(blocks, len(raw))), kl
