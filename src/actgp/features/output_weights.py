"""Units and output weights V = L⁻ᵀ m of network layers, from W, v and m, with the gradient derived by hand.

    V = Rᵀ m,   m̄ = R V̄,   R̄ = m V̄ᵀ,   B = R̄ Rᵀ = m m̄ᵀ

and from B on as in `whitening`, so that R̄ is never needed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.autocast import full_precision
from actgp.features.match import SpectralMatch
from actgp.features.whitening import Weights, by_kind, magnification, plainly, precision_for
from actgp.linalg import differentiated, times_few


class NetworkWeights(NamedTuple):
    """Of one layer."""

    directions: Float[Tensor, "M d"]
    outputs: Float[Tensor, "P M"]  # Vᵀ


def network_weights(
    Ws: Sequence[Float[Tensor, "M d"]],
    variances: Sequence[Float[Tensor, ""]],
    means: Sequence[Float[Tensor, "M P"]],
    match: SpectralMatch,
) -> list[NetworkWeights]:
    """Ŵ and Vᵀ of each of some layers that are alike, in the precision of the means, or in float64.

    That is where L⁻¹ magnifies: V is then large, and what the units of a layer give together is small beside what each
    gives, so that sums in float32 would have few digits left.
    """
    form = OutputWeights.apply if torch.is_grad_enabled() else _all_plainly
    found = form(match, *Ws, *variances, *means)
    return [NetworkWeights(*parts) for parts in zip(*by_kind(found, 2), strict=True)]


class OutputWeights(torch.autograd.Function):
    """(W, v, m) of each layer ↦ Ŵ, Vᵀ of each layer, for fixed energies."""

    @staticmethod
    def forward(ctx: Any, match: SpectralMatch, *inputs: Tensor) -> tuple[Tensor, ...]:
        Ws, variances, means = by_kind(inputs, 3)
        dtype = means[0].dtype
        weights, R = Weights.of(Ws, variances, match, dtype)
        ctx.match = match
        ctx.save_for_backward(*inputs, *weights)
        outputs = ((m.T.to(R.dtype) @ own).to(weights.R.dtype) for m, own in zip(means, R, strict=True))
        return *weights.directions.unbind(), *outputs

    @staticmethod
    @full_precision
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, lengths, directions, slope, R = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, *differentiated(partial(_all_plainly, ctx.match), tuple(inputs), grads)
        _, variances, means = by_kind(inputs, 3)
        directions_grads, V_grads = by_kind(grads, 2)
        B, means_grads = torch.empty_like(slope), []
        for m, V_grad, own, product in zip(means, V_grads, R, B, strict=True):
            m_grad = times_few(own, V_grad.T.to(R.dtype))
            torch.mm(m.to(R.dtype), m_grad.T, out=product)
            means_grads.append(m_grad)
        weights = Weights(lengths, directions, slope, R)
        stacked = torch.stack(directions_grads).to(R.dtype)
        found = weights.gradient(stacked, B, torch.stack(variances).to(R.dtype))
        every = (*(grad for part in found for grad in part.unbind()), *means_grads)
        return None, *(grad.to(given.dtype) for grad, given in zip(every, inputs, strict=True))


def _all_plainly(match: SpectralMatch, *inputs: Tensor) -> tuple[Tensor, ...]:
    """The same in operations that can be differentiated any number of times."""
    directions, outputs = [], []
    for W, variance, m in zip(*by_kind(inputs, 3), strict=True):
        own, R = plainly(W, variance, match)
        dtype = precision_for(m.dtype, match, magnification(R.detach()))
        directions.append(own.to(dtype))
        outputs.append((m.T.double() @ R).to(dtype))
    return *directions, *outputs
