"""What whitens activated features: R = L⁻¹, L Lᵀ = Kuu, from the weights, with the gradient derived by hand.

    Ŵ = W / ‖w‖,   T = Ŵ Ŵᵀ,   Kuu = κ(T) / v,   κ(t) = Σ_n c_n P_n(t),   R = √v L₁⁻¹,   L₁ L₁ᵀ = κ(T)

and backwards, where sym mirrors the lower triangle,

    B = R̄ Rᵀ,   K̄₁ = −½ Rᵀ sym(B) R / v,   Ŵ̄ += 2 (K̄₁ ∘ κ'(T)) Ŵ,   w̄ = (ŵ̄ − ŵ ⟨ŵ, ŵ̄⟩) / ‖w‖,   v̄ = tr B / 2v

Whoever has A = Kfu Rᵀ knows B without R̄: a relative change E of R, to (I + E) R, changes A to A (I + E)ᵀ, and so

    Ē = R̄ Rᵀ = B = Āᵀ A

Each layer is therefore given E, which is zero, beside R, and takes either R as what depends on W, or E and R as fixed.

The diagonal of κ(T), and with it the jitter, does not depend on the weights. R is always found in float64. R̄ comes in
the precision that the layer is computed in, with an error that is magnified on the way to W̄: hardly a digit is gained
by going on from it in a finer one.

Layers that are alike, with as many units and the same κ, are whitened in one stack: operations on matrices as small as
these cost more than their arithmetic.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp.autocast import full_precision
from actgp.features.match import SpectralMatch
from actgp.linalg import differentiated, half_sandwich, inverse_cholesky, inverse_choleskys
from actgp.sphere import evaluated

T = TypeVar("T")
LARGEST_MAGNIFICATION = 2e3  # A is then good to about 1e-4 of √k(x, x), with Kuf in float32
LARGEST_NORM = 1e12  # κ(1), beyond which products of Rᵀ, R and κ' leave the range of float32


def magnifies(R: Float64[Tensor, "M M"], sd: Float64[Tensor, ""] | None = None) -> bool:
    """Whether float32 will not do for Kuf, because L⁻¹ would magnify its round-off.

    Args:
        R: L⁻¹.
        sd: A standard deviation of u, whose round-off is magnified; R[0, 0]⁻¹ by default, that of the first.
    """
    return any_magnify(magnification(R, sd))


def precision_for(dtype: torch.dtype, match: SpectralMatch, magnifications: Float64[Tensor, "*batch"]) -> torch.dtype:
    """The precision in which layers of some spectra are computed: the given one, or float64 where that will not do."""
    exact = dtype == torch.float64 or match.norm > LARGEST_NORM or any_magnify(magnifications)
    return torch.float64 if exact else dtype


def any_magnify(magnifications: Float64[Tensor, "*batch"]) -> bool:
    """The same for layers of a stack."""
    return not magnifications.max().item() <= LARGEST_MAGNIFICATION  # or not a number


def magnification(
    R: Float64[Tensor, "*batch M M"], sd: Float64[Tensor, "*batch"] | None = None
) -> Float64[Tensor, "*batch"]:
    """‖L⁻¹‖, relative to what it whitens."""
    size = torch.linalg.vector_norm(R, dim=(-2, -1))
    return size / R[..., 0, 0] if sd is None else size * sd


class Parts(NamedTuple):
    """Of one layer."""

    directions: Float[Tensor, "M d"]
    R: Float[Tensor, "M M"]
    relative: Float[Tensor, "M M"] | None = None  # E; None without gradients


def whitenings(
    Ws: Sequence[Float[Tensor, "M d"]],
    variances: Sequence[Float[Tensor, ""]],
    match: SpectralMatch,
    dtype: torch.dtype,
) -> list[Parts]:
    """Ŵ, R and E of each layer, in a precision, or in float64 where that will not do.

    With gradients the precision is that of the whole stack, the finest that one of its layers needs.
    """
    if torch.is_grad_enabled():
        found = ActivatedWhitening.apply(match, dtype, *Ws, *variances)
        return [Parts(*parts) for parts in zip(*by_kind(found, 3), strict=True)]
    plain = (plainly(W, variance, match) for W, variance in zip(Ws, variances, strict=True))
    precise = ((*parts, precision_for(dtype, match, magnification(parts[1]))) for parts in plain)
    return [Parts(directions.to(own), R.to(own)) for directions, R, own in precise]


class Weights(NamedTuple):
    """What the weights of alike layers are turned into: their lengths and directions, κ'(T) and R, in one precision."""

    lengths: Float[Tensor, "L M 1"]
    directions: Float[Tensor, "L M d"]
    slope: Float[Tensor, "L M M"]
    R: Float[Tensor, "L M M"]

    @classmethod
    def of(
        cls,
        Ws: Sequence[Float[Tensor, "M d"]],
        variances: Sequence[Float[Tensor, ""]],
        match: SpectralMatch,
        dtype: torch.dtype,
    ) -> tuple[Self, Float64[Tensor, "L M M"]]:
        """In a precision, or in float64 where that will not do for one of the layers; and R in float64.

        Without gradients.
        """
        W = torch.stack(tuple(Ws)).to(torch.float64)
        lengths = torch.linalg.vector_norm(W, dim=-1, keepdim=True)
        directions = W / lengths
        T = torch.bmm(directions, directions.mT)
        R = inverse_choleskys(match.kappa(T.dtype, T.device)(T), torch.stack(tuple(variances)).to(T.dtype).sqrt_())
        own = precision_for(dtype, match, magnification(R))
        slope = match.kappa_slope(own, T.device)(T.to(own))
        return cls(lengths.to(own), directions.to(own), slope, R.to(own)), R

    def gradient(
        self,
        directions_grad: Float[Tensor, "L M d"],
        B: Float[Tensor, "L M M"],
        variances: Float[Tensor, " L"],
    ) -> tuple[Float[Tensor, "L M d"], Float[Tensor, " L"]]:
        """W̄ and v̄ from Ŵ̄ and B = R̄ Rᵀ, of which the lower triangle counts."""
        half = half_sandwich(self.R, B).mul_(self.slope)  # with its transpose −2 v K̄₁ ∘ κ'(T)
        across = self.directions.mT
        both = torch.baddbmm(torch.bmm(across, half), across, half.mT).mT  # (Hᵀ + H) Ŵ, transposed: few columns
        grad = directions_grad.addcdiv(both, variances.view(-1, 1, 1), value=-1.0)
        along = torch.linalg.vecdot(grad, self.directions).unsqueeze(-1)
        W_grad = grad.addcmul_(self.directions, along, value=-1.0).div_(self.lengths)
        return W_grad, B.diagonal(dim1=-2, dim2=-1).sum(-1).div_(2 * variances)


class ActivatedWhitening(torch.autograd.Function):
    """(W, v) of each layer ↦ Ŵ, R, E of each layer, for fixed energies."""

    @staticmethod
    def forward(ctx: Any, match: SpectralMatch, dtype: torch.dtype, *inputs: Tensor) -> tuple[Tensor, ...]:
        Ws, variances = by_kind(inputs, 2)
        weights, _ = Weights.of(Ws, variances, match, dtype)
        ctx.match = match
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *weights)
        relative = weights.R.new_zeros(len(Ws), 1, 1).expand_as(weights.R)
        return *weights.directions.unbind(), *weights.R.unbind(), *relative.unbind()

    @staticmethod
    @full_precision
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, lengths, directions, slope, R = ctx.saved_tensors
        if torch.is_grad_enabled():
            kinds = zip(by_kind(grads, 3), (directions, R, R), strict=True)
            given = tuple(grad for part, like in kinds for grad in _zeros_for_none(part, like))
            return None, None, *differentiated(partial(_all_plainly, match=ctx.match), tuple(inputs), given)
        directions_grads, R_grads, relative_grads = by_kind(grads, 3)
        directions_grad = torch.stack(_zeros_for_none(directions_grads, directions))
        B = torch.stack(_zeros_for_none(relative_grads, R))
        if any(grad is not None for grad in R_grads):
            B.baddbmm_(torch.stack(_zeros_for_none(R_grads, R)), R.mT)
        variances = torch.stack(by_kind(inputs, 2)[1])
        found = Weights(lengths, directions, slope, R).gradient(directions_grad, B, variances.to(R.dtype))
        every = (grad for part in found for grad in part.unbind())
        return None, None, *(grad.to(given.dtype) for grad, given in zip(every, inputs, strict=True))


def _zeros_for_none(grads: Sequence[Tensor | None], stack: Tensor) -> list[Tensor]:
    return [torch.zeros_like(like) if grad is None else grad for grad, like in zip(grads, stack.unbind(), strict=True)]


def by_kind(tensors: Sequence[T], kinds: int) -> list[tuple[T, ...]]:
    """Tensors of all layers, those of one kind after those of the other, such as weights and variances, by kind."""
    number = len(tensors) // kinds
    return [tuple(tensors[start : start + number]) for start in range(0, len(tensors), number)]


def plainly(W: Tensor, variance: Tensor, match: SpectralMatch) -> tuple[Tensor, Tensor]:
    """Ŵ and R in operations that can be differentiated any number of times."""
    kappa = match.kappa(torch.float64, W.device)
    directions = torch.nn.functional.normalize(W.double(), dim=-1)
    return directions, inverse_cholesky(evaluated(kappa, directions @ directions.T) / variance.double())


def _all_plainly(*inputs: Tensor, match: SpectralMatch) -> tuple[Tensor, ...]:
    pairs = [plainly(W, variance, match) for W, variance in zip(*by_kind(inputs, 2), strict=True)]
    # E = R R₀⁻¹ − I, where R₀ is what R is now, and stays when W changes
    relative = [
        torch.linalg.solve_triangular(R.detach(), R, upper=False, left=False) - torch.eye(len(R)).to(R)
        for _, R in pairs
    ]
    return *(directions for directions, _ in pairs), *(R for _, R in pairs), *relative
