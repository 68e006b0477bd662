"""The blocks of S: `layers.variational.scales_of`, with the gradient derived by hand.

S_ij = raw_ij below the diagonal, exp raw_ii on it,      r̄aw_ij = S̄_ij,   r̄aw_ii = S̄_ii S_ii
"""

from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.fused.plain import differentiated
from actgp.layers.variational import Scales, diagonal_blocks, scales_of
from actgp.linalg import lower_triangle


def scales(raw: Float[Tensor, "P M M"], blocks: tuple[int, ...]) -> Scales:
    """The blocks of S, rows first."""
    return BlocksOfS.apply(blocks, raw)


class BlocksOfS(torch.autograd.Function):
    """raw ↦ the blocks of S."""

    @staticmethod
    def forward(ctx: Any, blocks: tuple[int, ...], raw: Tensor) -> Scales:
        found = []
        for block in diagonal_blocks(raw, blocks):
            S = block.transpose(0, 1).clone(memory_format=torch.contiguous_format)
            S.mul_(_inside(len(S), raw.dtype, raw.device))
            S.diagonal(dim1=0, dim2=2).exp_()
            found.append(S)
        ctx.blocks = blocks
        ctx.save_for_backward(raw, *found)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        raw, *found = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, *differentiated(lambda given: scales_of(given, ctx.blocks), (raw,), grads)
        raw_grad = torch.zeros_like(raw)
        for part, S, grad in zip(diagonal_blocks(raw_grad, ctx.blocks), found, grads, strict=True):
            rows_first = part.transpose(0, 1)
            torch.mul(grad, _inside(len(S), raw.dtype, raw.device), out=rows_first)
            rows_first.diagonal(dim1=0, dim2=2).mul_(S.diagonal(dim1=0, dim2=2))
        return None, raw_grad


@lru_cache(maxsize=64)
def _inside(size: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "B 1 B"]:
    """Ones on and below the diagonal."""
    return lower_triangle(size, dtype, device).unsqueeze(1)
