"""What whitens activated features: R = L⁻¹, L Lᵀ = Kuu, from the weights, with the gradient derived by hand.

    Ŵ = W / ‖w‖,   T = Ŵ Ŵᵀ,   Kuu = κ(T) / v,   κ(t) = Σ_n c_n P_n(t),   R = √v L₁⁻¹,   L₁ L₁ᵀ = κ(T)

and backwards, where sym mirrors the lower triangle,

    K̄ = −½ R₁ᵀ sym(R̄₁ R₁ᵀ) R₁,   Ŵ̄ += 2 (K̄ ∘ κ'(T)) Ŵ,   w̄ = (ŵ̄ − ŵ ⟨ŵ, ŵ̄⟩) / ‖w‖,   v̄ = ⟨R̄, R⟩ / 2v

The diagonal of Kuu, and with it the jitter, does not depend on the weights.
"""

from functools import partial
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp.linalg import differentiated, inverse_cholesky, inverse_cholesky_gradient, invert, stable_cholesky
from actgp.sphere import Polynomial, evaluated
from actgp.tracing import tracing

LARGEST_MAGNIFICATION = 2e3  # A is then good to about 1e-4 of √k(x, x), with Kuf in float32


def magnifies(R: Float64[Tensor, "M M"], sd: Float64[Tensor, ""] | None = None) -> bool:
    """Whether float32 will not do for Kuf, because L⁻¹ would magnify its round-off.

    Args:
        R: L⁻¹.
        sd: A standard deviation of u, whose round-off is magnified; R[0, 0]⁻¹ by default, that of the first.
    """
    if (decided := tracing()) is not None:
        return decided.exact
    size = 1.0 / R[0, 0].item() if sd is None else sd.item()
    return torch.linalg.vector_norm(R).item() * size > LARGEST_MAGNIFICATION


def whitening(
    W: Float[Tensor, "M d"], variance: Float[Tensor, ""], kappa: Polynomial, dtype: torch.dtype
) -> tuple[Float[Tensor, "M d"], Float[Tensor, "M M"]]:
    """Ŵ and R, in a precision, or in float64 where that will not do."""
    if torch.is_grad_enabled() and tracing() is None:
        return ActivatedWhitening.apply(W, variance, kappa, dtype)
    return _in_precision(*_plainly(W, variance, kappa), dtype)


class Weights(NamedTuple):
    """What weights are turned into: their lengths and directions, κ'(T) and R."""

    lengths: Float64[Tensor, "M 1"]
    directions: Float64[Tensor, "M d"]
    slope: Float64[Tensor, "M M"]
    R: Float64[Tensor, "M M"]

    @classmethod
    def of(cls, W: Float[Tensor, "M d"], variance: float, kappa: Polynomial) -> Self:
        """Without gradients."""
        lengths = torch.linalg.vector_norm(W.double(), dim=-1, keepdim=True)
        directions = W / lengths
        K, slope = kappa.with_slope(directions @ directions.T)
        R = torch.mul(invert(stable_cholesky(K).L), variance**0.5, out=torch.empty_like(K))
        return cls(lengths, directions, slope, R)

    def gradient(
        self, directions_grad: Float64[Tensor, "M d"], R_grad: Float64[Tensor, "M M"], variance: float
    ) -> tuple[Float64[Tensor, "M d"], Float64[Tensor, ""]]:
        """W̄ and v̄."""
        # In K̄ with R = √v R₁ thrice and R̄ = R̄₁ / √v once there is a factor v too many; and 2 K̄ is wanted.
        t_grad = inverse_cholesky_gradient(self.R, R_grad).mul_(self.slope)
        grad = torch.addmm(directions_grad, t_grad, self.directions, alpha=-1.0 / variance)
        along = torch.linalg.vecdot(grad, self.directions).unsqueeze(-1)
        W_grad = grad.addcmul_(self.directions, along, value=-1.0).div_(self.lengths)
        return W_grad, torch.dot(R_grad.reshape(-1), self.R.view(-1)) / (2 * variance)


class ActivatedWhitening(torch.autograd.Function):
    """(W, v) ↦ Ŵ, R for fixed energies."""

    @staticmethod
    def forward(ctx: Any, W: Tensor, variance: Tensor, kappa: Polynomial, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        weights = Weights.of(W, variance.item(), kappa)
        ctx.kappa = kappa
        ctx.save_for_backward(W, variance, *weights)
        return _in_precision(weights.directions, weights.R, dtype)

    @staticmethod
    def backward(ctx: Any, directions_grad: Tensor, R_grad: Tensor) -> tuple[Tensor | None, ...]:
        W, variance, *weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = differentiated(partial(_plainly, kappa=ctx.kappa), (W, variance), (directions_grad, R_grad))
            return *again, None, None
        grads = Weights(*weights).gradient(directions_grad.double(), R_grad.double(), variance.item())
        return *(grad.to(x) for grad, x in zip(grads, (W, variance), strict=True)), None, None


def _plainly(W: Tensor, variance: Tensor, kappa: Polynomial) -> tuple[Tensor, Tensor]:
    """The same in operations that can be differentiated any number of times."""
    directions = torch.nn.functional.normalize(W.double(), dim=-1)
    return directions, inverse_cholesky(evaluated(kappa, directions @ directions.T) / variance.double())


def _in_precision(directions: Tensor, R: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return (directions, R) if dtype == R.dtype or magnifies(R) else (directions.to(dtype), R.to(dtype))
