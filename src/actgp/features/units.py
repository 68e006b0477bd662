"""A layer of hidden units and what follows it, with the gradient derived by hand.

    x̃ = [x / ℓ, 1],   r = ‖x̃‖,   x̂ = x̃ / r,   T = X̂ Ŵᵀ,   Kfu = r σ̃(T),   k = v r²

    A = Kfu Bᵀ        B = L⁻¹ whitens the units; B = Vᵀ makes the network layer

and backwards, with a bar for the gradient of a result with respect to what it stands over, and T̄ for that of r T,

    B̄ = Āᵀ Kfu,   T̄ = (Ā B) ∘ σ̃'(T),   Ŵ̄ = T̄ᵀ X̃,   r r̄ = Σ (Ā B) ∘ Kfu + 2 k k̄,   v̄ = Σ k̄ r²,
    x̃̄ = t̄ Ŵ + x̃ (r r̄ − ⟨x̃, t̄ Ŵ⟩) / r²,   x̄ = x̃̄ / ℓ,   ℓ̄ = −Σ x̄ ∘ x / ℓ
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vecdot

from actgp.autocast import full_precision
from actgp.kernels import ZonalKernel
from actgp.linalg import differentiated, rows_in_cache, times_few
from actgp.sphere import Polynomial, evaluated, lift, project


@dataclass(frozen=True)
class Shapes:
    """Columns of units whose activation is a polynomial σ̃, then columns whose activation is the shape s of a kernel.

    Attributes:
        sigma: σ̃, or None where there are no such columns.
        width: How many columns it has.
        kernel: The kernel of the others, whose energies are fixed.
    """

    sigma: Polynomial | None
    width: int
    kernel: ZonalKernel

    def __call__(self, t: Float[Tensor, "N M"]) -> Float[Tensor, "N M"]:
        others = self.kernel.shape(t[:, self.width :].clamp(-1.0, 1.0))
        return others if self.sigma is None else torch.cat([self.sigma(t[:, : self.width]), others], dim=1)

    def with_slope(self, t: Float[Tensor, "N M"]) -> tuple[Float[Tensor, "N M"], Float[Tensor, "N M"]]:
        """Values and slopes, without gradients."""
        others = self.kernel.shape_and_slope(t[:, self.width :])
        if self.sigma is None:
            return others
        own = self.sigma.with_slope(t[:, : self.width])
        value, slope = (torch.cat(pair, dim=1) for pair in zip(own, others, strict=True))
        return value, slope

    def evaluated(self, t: Float[Tensor, "N M"]) -> Float[Tensor, "N M"]:
        """Values, with derivatives of every order."""
        inside = t[:, self.width :]
        others = self.kernel.shape(inside + (inside.detach().clamp(-1.0, 1.0) - inside.detach()))
        if self.sigma is None:
            return others
        return torch.cat([evaluated(self.sigma, t[:, : self.width]), others], dim=1)


class UnitInputs(NamedTuple):
    """What `units` are made of, besides X."""

    lengthscale: Float[Tensor, "1 D"]
    directions: Float[Tensor, "M d"]
    variance: Float[Tensor, ""]
    B: Float[Tensor, "K M"]
    sigma: Polynomial | Shapes


def units(
    X: Float[Tensor, "N D"],
    lengthscale: Float[Tensor, "1 D"],
    directions: Float[Tensor, "M d"],
    variance: Float[Tensor, ""],
    B: Float[Tensor, "K M"],
    sigma: Polynomial | Shapes,
) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
    """A = Kfu Bᵀ and k(x, x)."""
    if torch.is_grad_enabled():
        return Units.apply(sigma, X, lengthscale, directions, variance, B)
    radius, x = project(lift(X / lengthscale))
    A, rows = X.new_empty(len(X), len(B)), rows_in_cache()
    for part, r, result in zip(x.split(rows), radius.split(rows), A.split(rows), strict=True):
        torch.mm(sigma(part @ directions.T).mul_(r.unsqueeze(-1)), B.T, out=result)
    return A, radius.square_().mul_(variance)


def forward(
    sigma: Polynomial | Shapes,
    X: Float[Tensor, "N D"],
    lengthscale: Float[Tensor, "1 D"],
    directions: Float[Tensor, "M d"],
    variance: Float[Tensor, ""],
    B: Float[Tensor, "K M"],
) -> list[Tensor]:
    """A and k, then what the way back needs: X̃, r², Kfu and σ̃'(T). Without gradients."""
    lifted = lift(X / lengthscale)
    radius, x = project(lifted)
    value, slope = sigma.with_slope(torch.mm(x, directions.T))
    Kfu = value.mul_(radius.unsqueeze(-1))
    squared = radius.square_()
    return [times_few(Kfu, B.T), squared * variance, lifted, squared, Kfu, slope]


def backward(
    inputs: Sequence[Tensor], kept: Sequence[Tensor], A_grad: Float[Tensor, "N K"], prior_grad: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The gradients of X, ℓ, Ŵ and v, the inputs being these and B, whose gradient is left to `gradient_of_B`."""
    (X, lengthscale, directions, variance, B), (lifted, squared, Kfu, slope) = inputs, kept
    Kfu_grad, variance_grad = torch.mm(A_grad, B), None
    along = vecdot(Kfu_grad, Kfu)  # r r̄
    if prior_grad is not None:
        weighted = prior_grad * squared
        along.addcmul_(weighted, variance, value=2.0)
        variance_grad = weighted.sum()
    t_grad = Kfu_grad.mul_(slope)
    lifted_grad = times_few(t_grad, directions)
    along.sub_(vecdot(lifted, lifted_grad)).div_(squared)
    X_grad = lifted_grad.addcmul_(lifted, along.unsqueeze(-1))[:, :-1].div_(lengthscale)  # x̃̄ / ℓ
    lengthscale_grad = (X_grad * X).sum(0, keepdim=True).div_(lengthscale).neg_()  # x̃ = x / ℓ
    return X_grad, lengthscale_grad, times_few(t_grad.T, lifted), variance_grad


def gradient_of_B(kept: Sequence[Tensor], A_grad: Float[Tensor, "N K"]) -> Float[Tensor, "K M"]:
    """Āᵀ Kfu."""
    _, _, Kfu, _ = kept
    return torch.mm(A_grad.T, Kfu)


class Units(torch.autograd.Function):
    """(X, ℓ, Ŵ, v, B) ↦ Kfu Bᵀ, k for a fixed activation σ̃."""

    @staticmethod
    def forward(ctx: Any, sigma: Polynomial | Shapes, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        A, prior, *kept = forward(sigma, *inputs)
        ctx.sigma = sigma
        ctx.set_materialize_grads(False)  # a network has no use for k
        ctx.save_for_backward(*inputs, *kept)
        return A, prior

    @staticmethod
    @full_precision
    def backward(ctx: Any, A_grad: Tensor | None, prior_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs, kept = ctx.saved_tensors[:5], ctx.saved_tensors[5:]
        X, *_, B = inputs
        A_grad = X.new_zeros(len(X), len(B)) if A_grad is None else A_grad
        if torch.is_grad_enabled():
            prior_grad = X.new_zeros(len(X)) if prior_grad is None else prior_grad
            return None, *differentiated(partial(plainly, ctx.sigma), inputs, (A_grad, prior_grad))
        return None, *backward(inputs, kept, A_grad, prior_grad), gradient_of_B(kept, A_grad)


def plainly(
    sigma: Polynomial | Shapes, X: Tensor, lengthscale: Tensor, directions: Tensor, variance: Tensor, B: Tensor
) -> tuple[Tensor, Tensor]:
    """The same in operations that can be differentiated any number of times."""
    radius, x = project(lift(X / lengthscale))
    t = x @ directions.T
    Kfu = radius.unsqueeze(-1) * (sigma.evaluated(t) if isinstance(sigma, Shapes) else evaluated(sigma, t))
    return Kfu @ B.T, variance * radius.square()
