"""The variational distribution of whitened inducing variables, and the marginals of f that follow from it.

u = L v with L Lᵀ = Kuu, prior p(v) = N(0, I), and one Gaussian for each of P outputs:

    q(v_p) = N(m_p, S_p S_pᵀ)
    KL     = ½ Σ_p (‖S_p‖² + ‖m_p‖² − M − 2 Σ_i log S_p[i, i])

    mean = A m,    var_p = k − Σ A² + Σ (A S_p)²,    A = Kfu L⁻ᵀ: [N, M]

Where variables come in groups that are independent under q, such as hidden units and inducing points, S_p is
block-diagonal.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.linalg import vector_norm

from actgp.linalg import lower_triangle

Scales = tuple[Float[Tensor, "B P B"], ...]  # blocks of S, rows first: S_p[i, j] at [i, p, j]


class WhitenedGaussian(nn.Module):
    """q(v), starting at the prior: m = 0, S = I.

    Args:
        num_inducing: M.
        num_outputs: P.
        blocks: Sizes of groups of variables that are independent of each other; one group by default.
        num_means: How many of the means, from the first on, may differ from zero; all by default.

    Attributes:
        raw_mean: [M, P]: m, where it may differ from zero; the rest is not used.
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
        self.raw_mean = nn.Parameter(torch.zeros(num_inducing, num_outputs))
        self.raw_scale_tril = nn.Parameter(torch.zeros(num_outputs, num_inducing, num_inducing))

    @property
    def mean(self) -> Float[Tensor, "M P"]:
        """m, with zeros where it has to be zero: no gradient goes there."""
        if self.num_means == len(self.raw_mean):
            return self.raw_mean
        return nn.functional.pad(self.raw_mean[: self.num_means], (0, 0, 0, len(self.raw_mean) - self.num_means))

    @property
    def scale_tril(self) -> Float[Tensor, "P M M"]:
        """S_p, lower triangular with a positive diagonal, and zero outside the blocks."""
        raw = self.raw_scale_tril
        inside = torch.block_diag(*(lower_triangle(size, raw.dtype, raw.device, -1) for size in self.blocks))
        return raw * inside + torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1).exp())

    @torch.no_grad()
    def assign(self, mean: Float[Tensor, "M P"], scale_tril: Float[Tensor, "P M M"]) -> None:
        """Sets m and S; what S has above the diagonal or outside the blocks is dropped."""
        diagonal = scale_tril.diagonal(dim1=-2, dim2=-1)
        if mean.shape != self.raw_mean.shape or scale_tril.shape != self.raw_scale_tril.shape:
            raise ValueError(
                f"q(v) must have mean {list(self.raw_mean.shape)} and scale_tril {list(self.raw_scale_tril.shape)}, "
                f"got {list(mean.shape)} and {list(scale_tril.shape)}; reshape them"
            )
        if not (diagonal > 0).all():
            raise ValueError(
                f"scale_tril must have a positive diagonal, got a smallest entry of {diagonal.min().item():.3g}; "
                "pass a Cholesky factor of the covariance"
            )
        self.raw_mean.copy_(mean)
        self.raw_scale_tril.zero_()
        for raw, S in zip(*(diagonal_blocks(x, self.blocks) for x in (self.raw_scale_tril, scale_tril)), strict=True):
            raw.copy_(S.tril(-1))
        self.raw_scale_tril.diagonal(dim1=-2, dim2=-1).copy_(diagonal.log())

    def kl(self, scales: Scales | None = None) -> Float[Tensor, ""]:
        """KL(q(v) ‖ N(0, I)), summed over outputs.

        Args:
            scales: The blocks of S, where they are known already.
        """
        flat = [S.flatten() for S in (scales_of(self.raw_scale_tril, self.blocks) if scales is None else scales)]
        m = self.mean.flatten()
        squares = sum((torch.dot(S, S) for S in flat), torch.dot(m, m))
        return 0.5 * (squares - len(m)) - self.raw_scale_tril.diagonal(dim1=-2, dim2=-1).sum()


def scales_of(raw: Float[Tensor, "P M M"], blocks: tuple[int, ...]) -> Scales:
    """The blocks of S, rows first: the strict lower triangle of raw, and exp of its diagonal."""
    found = []
    for block in diagonal_blocks(raw, blocks):
        diagonal = torch.diag_embed(block.diagonal(dim1=-2, dim2=-1).exp())
        S = block * lower_triangle(block.shape[-1], raw.dtype, raw.device, -1) + diagonal
        found.append(S.transpose(0, 1).contiguous())
    return tuple(found)


def diagonal_blocks(matrices: Float[Tensor, "P M M"], blocks: tuple[int, ...]) -> list[Float[Tensor, "P B B"]]:
    """Views of the blocks on the diagonal."""
    ends = list(accumulate(blocks, initial=0))
    return [matrices[:, start:end, start:end] for start, end in pairwise(ends)]


class Marginals(NamedTuple):
    """Independent Gaussians, one for each input and output."""

    mean: Float[Tensor, "N P"]
    variance: Float[Tensor, "N P"]


def conditional_marginals(
    A: Float[Tensor, "N M"], prior: Float[Tensor, " N"], mean: Float[Tensor, "M P"], *scales: Float[Tensor, "B P B"]
) -> Marginals:
    """The marginals of f given q(v).

    Args:
        A: Whitened covariances.
        prior: k(x, x).
        mean: m.
        scales: Blocks of S, rows first, S_p[i, j] at [i, p, j], so that A S_p of all outputs p is one matrix product.
    """
    variance = unexplained(A, prior).unsqueeze(-1)
    for columns, S in zip(columns_of(A, scales), scales, strict=True):
        variance = variance + vector_norm(product(columns, S), dim=-1).square()
    return Marginals(A @ mean, variance)


def unexplained(A: Float[Tensor, "N M"], prior: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """k(x, x) − Σ A²: the prior variance that no q(v) can explain; never below zero."""
    return (prior - A.square().sum(-1)).clamp_min(0.0)


def columns_of(A: Float[Tensor, "N M"], scales: Sequence[Tensor]) -> Sequence[Float[Tensor, "N B"]]:
    """Those that belong to each block."""
    return A.split([len(S) for S in scales], dim=1)


def product(A: Float[Tensor, "N B"], S: Float[Tensor, "B P B"]) -> Float[Tensor, "N P B"]:
    """A S_p for every output p."""
    return torch.mm(A, S.flatten(1)).unflatten(1, S.shape[1:])
