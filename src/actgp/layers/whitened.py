"""The variational distribution of whitened inducing variables.

u = L v with L Lᵀ = Kuu, prior p(v) = N(0, I), and one Gaussian for each of P outputs:

    q(v_p) = N(m_p, S_p S_pᵀ)
    KL     = ½ Σ_p (‖S_p‖² + ‖m_p‖² − M − 2 Σ_i log S_p[i, i])

Where variables come in groups that are independent under q, such as hidden units and inducing points, S_p is
block-diagonal. Layers work with panels of it, a few columns each, without the rows above the diagonal block in them:
then hardly anything is multiplied by the zeros of a triangle.
"""

from collections.abc import Sequence
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

    def of(self, matrices: Float[Tensor, "P M M"]) -> Float[Tensor, "R P w"]:
        """A view of it, rows first."""
        return matrices[:, self.start : self.end, self.start : self.start + self.width].transpose(0, 1)


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
        return scales_and_kl((self,))[1]


def scales_and_kl(distributions: Sequence[WhitenedGaussian]) -> tuple[list[Scales], Float[Tensor, ""]]:
    """S of each q(v) in panels, and the sum of their KL: from one pass over the parameters."""
    panels = tuple(panels_of(q.blocks, q.mean.shape[1]) for q in distributions)
    means, raws = [q.means() for q in distributions], [q.raw_scale_tril for q in distributions]
    *scales, kl = ScalesAndKL.apply(panels, *means, *raws)
    ends = accumulate(map(len, panels), initial=0)
    return [tuple(scales[start:end]) for start, end in pairwise(ends)], kl


class ScalesAndKL(torch.autograd.Function):
    """(m, raw) of each layer ↦ panels of S of each layer, KL of all. S has exp of raw on its diagonal, zeros above."""

    @staticmethod
    def forward(ctx: Any, panels: tuple[tuple[Panel, ...], ...], *inputs: Tensor) -> tuple[Tensor, ...]:
        means, raws = inputs[: len(panels)], inputs[len(panels) :]
        scales = []
        for part, inside in zip(_parts(raws, panels), _insides(panels, raws[0].dtype, raws[0].device), strict=True):
            S = part.clone(memory_format=torch.contiguous_format).mul_(inside)
            S.diagonal(dim1=0, dim2=2).exp_()
            scales.append(S)
        squares = [torch.dot(values, values) for values in (each.reshape(-1) for each in (*scales, *means))]
        logs = [raw.diagonal(dim1=1, dim2=2).sum() for raw in raws]
        kl = torch.stack(squares).sum().sub_(sum(m.numel() for m in means))
        kl = kl.sub_(torch.stack(logs).sum(), alpha=2.0).mul_(0.5)
        ctx.panels = panels
        ctx.save_for_backward(*inputs, *scales)
        return *scales, kl

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        number = len(ctx.panels)
        inputs, scales = ctx.saved_tensors[: 2 * number], ctx.saved_tensors[2 * number :]
        if torch.is_grad_enabled():
            return None, *differentiated(partial(_plainly, ctx.panels), inputs, grads)
        *S_grads, kl_grad = grads
        raw_grads = [torch.zeros_like(raw) for raw in inputs[number:]]
        parts, insides = _parts(raw_grads, ctx.panels), _insides(ctx.panels, kl_grad.dtype, kl_grad.device)
        for part, inside, S, S_grad in zip(parts, insides, scales, S_grads, strict=True):
            grad = torch.addcmul(S_grad, S, kl_grad)  # ∂ ½‖S‖² = S
            grad.diagonal(dim1=0, dim2=2).mul_(S.diagonal(dim1=0, dim2=2)).sub_(kl_grad)
            torch.mul(grad, inside, out=part)
        return None, *(kl_grad * m for m in inputs[:number]), *raw_grads


def _parts(matrices: Sequence[Tensor], panels: Sequence[Sequence[Panel]]) -> list[Tensor]:
    return [panel.of(raw) for raw, own in zip(matrices, panels, strict=True) for panel in own]


@lru_cache(maxsize=64)
def _insides(
    panels: tuple[tuple[Panel, ...], ...], dtype: torch.dtype, device: torch.device
) -> list[Float[Tensor, "R 1 w"]]:
    """Ones where panels of S are not zero: parts of one tensor, since all of them begin on the diagonal."""
    shapes = [(panel.end - panel.start, panel.width) for own in panels for panel in own]
    height, width = (max(sizes) for sizes in zip(*shapes, strict=True))
    inside = torch.ones(height, 1, width, dtype=dtype, device=device)
    inside.squeeze(1).tril_()
    return [inside[:rows, :, :columns] for rows, columns in shapes]


def diagonal_blocks(matrices: Float[Tensor, "P M M"], blocks: tuple[int, ...]) -> list[Float[Tensor, "P B B"]]:
    """Views of the blocks on the diagonal."""
    ends = list(accumulate(blocks, initial=0))
    return [matrices[:, start:end, start:end] for start, end in pairwise(ends)]


def _scale_tril(raw: Float[Tensor, "P M M"], blocks: tuple[int, ...]) -> Float[Tensor, "P M M"]:
    inside = torch.block_diag(*(lower_triangle(size, raw.dtype, raw.device) for size in blocks))
    return (raw * inside).tril(-1) + torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1).exp())


def _plainly(panels: tuple[tuple[Panel, ...], ...], *inputs: Tensor) -> tuple[Tensor, ...]:
    """The same in operations that can be differentiated any number of times."""
    scales, kl = [], inputs[0].new_zeros(())
    for mean, raw, own in zip(inputs[: len(panels)], inputs[len(panels) :], panels, strict=True):
        inside = torch.zeros_like(raw)
        for panel in own:
            panel.of(inside).fill_(1.0)
        diagonal = raw.diagonal(dim1=-2, dim2=-1)
        S = (raw * inside).tril(-1) + torch.diag_embed(diagonal.exp())
        kl = kl + 0.5 * (S.square().sum() + mean.square().sum() - mean.numel()) - diagonal.sum()
        scales += [panel.of(S) for panel in own]
    return *scales, kl
