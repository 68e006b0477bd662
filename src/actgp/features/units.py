"""A layer of hidden units and what follows it, with the gradient derived by hand.

    x̃ = [x / ℓ, 1],   r = ‖x̃‖,   x̂ = x̃ / r,   T = X̂ Ŵᵀ,   Kfu = r σ̃(T),   k = v r²

    A = Kfu Bᵀ        B = L⁻¹ whitens the units; B = Vᵀ makes the network layer

and backwards, with a bar for the gradient of a result with respect to what it stands over,

    B̄ = Āᵀ Kfu,   K̄ = Ā B,   T̄ = r K̄ ∘ σ̃'(T),   Ŵ̄ = T̄ᵀ X̂,   X̂̄ = T̄ Ŵ,   r̄ = Σ K̄ ∘ Kfu / r + 2 v r k̄,
    x̃̄ = x̂̄ / r + x̂ (r̄ − ⟨x̂, x̂̄⟩ / r),   x̄ = x̃̄ / ℓ,   ℓ̄ = −Σ x̃̄ ∘ x̃ / ℓ,   v̄ = Σ k̄ r²
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vecdot

from actgp.kernels import ZonalKernel
from actgp.linalg import differentiated, rows_in_cache
from actgp.sphere import Polynomial, evaluated, lift, project
from actgp.tracing import tracing


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
        others, _ = self.kernel.shape_and_slope(t[:, self.width :])
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


def units(
    X: Float[Tensor, "N D"],
    lengthscale: Float[Tensor, "1 D"],
    directions: Float[Tensor, "M d"],
    variance: Float[Tensor, ""],
    B: Float[Tensor, "K M"],
    sigma: Polynomial | Shapes,
) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
    """Kfu Bᵀ and k(x, x)."""
    if tracing() is not None:
        return _plainly(X, lengthscale, directions, variance, B, sigma)
    if torch.is_grad_enabled():
        return Units.apply(X, lengthscale, directions, variance, B, sigma)
    radius, x = project(lift(X / lengthscale))
    A, rows = X.new_empty(len(X), len(B)), rows_in_cache()
    for part, r, result in zip(x.split(rows), radius.split(rows), A.split(rows), strict=True):
        torch.mm(sigma(part @ directions.T).mul_(r.unsqueeze(-1)), B.T, out=result)
    return A, radius.square_().mul_(variance)


class Units(torch.autograd.Function):
    """(X, ℓ, Ŵ, v, B) ↦ Kfu Bᵀ, k for a fixed activation σ̃."""

    @staticmethod
    def forward(
        ctx: Any, X: Tensor, lengthscale: Tensor, directions: Tensor, variance: Tensor, B: Tensor, sigma: Any
    ) -> tuple[Tensor, Tensor]:
        radius, x = project(lift(X / lengthscale))
        value, slope = sigma.with_slope(x @ directions.T)
        Kfu = value.mul_(radius.unsqueeze(-1))
        ctx.sigma = sigma
        ctx.save_for_backward(X, lengthscale, directions, variance, B, radius, x, Kfu, slope)
        return Kfu @ B.T, radius.square().mul_(variance)

    @staticmethod
    def backward(ctx: Any, A_grad: Tensor, prior_grad: Tensor) -> tuple[Tensor | None, ...]:
        X, lengthscale, directions, variance, B, radius, x, Kfu, slope = ctx.saved_tensors
        if torch.is_grad_enabled():
            inputs = (X, lengthscale, directions, variance, B)
            again = differentiated(partial(_plainly, sigma=ctx.sigma), inputs, (A_grad, prior_grad))
            return *again, None
        column, Kfu_grad = radius.unsqueeze(-1), A_grad @ B
        t_grad = slope.mul(Kfu_grad).mul_(column)
        x_grad = (t_grad @ directions).div_(column)
        weighted = prior_grad * radius
        radius_grad = vecdot(Kfu_grad, Kfu).div_(radius).addcmul_(weighted, variance, value=2.0)
        along = radius_grad.sub_(vecdot(x, x_grad))
        X_grad = x_grad.addcmul_(x, along.unsqueeze(-1))[:, :-1].div_(lengthscale)  # x̃̄ / ℓ
        lengthscale_grad = (X_grad * X).sum(0, keepdim=True).div_(lengthscale).neg_()  # x̃ = x / ℓ
        return X_grad, lengthscale_grad, t_grad.T @ x, torch.dot(weighted, radius), A_grad.T @ Kfu, None


def _plainly(
    X: Tensor, lengthscale: Tensor, directions: Tensor, variance: Tensor, B: Tensor, sigma: Polynomial | Shapes
) -> tuple[Tensor, Tensor]:
    """The same in operations that can be differentiated any number of times."""
    radius, x = project(lift(X / lengthscale))
    t = x @ directions.T
    Kfu = radius.unsqueeze(-1) * (sigma.evaluated(t) if isinstance(sigma, Shapes) else evaluated(sigma, t))
    return Kfu @ B.T, variance * radius.square()
