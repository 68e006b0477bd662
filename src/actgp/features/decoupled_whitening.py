"""What whitens activations u and inducing points v together: R = L⁻¹ of both, with the gradient derived by hand.

R_u = L_u⁻¹ is that of the activations (`whitening`). For the points, lifted to z̃ = [z / ℓ, 1] = r ẑ,

    Kvu = r σ̃(ẑ Ŵᵀ),   A = Kvu R_uᵀ,   Kvv = v r rᵀ ∘ s(ẑ ẑᵀ),   R_s = chol(Kvv − A Aᵀ)⁻¹,   Q = A R_u

    R = [ R_u      0  ]
        [ −R_s Q  R_s ]

Backwards, with a bar for gradients, let [Ū, 0; G, V̄] be the blocks of R̄. Since R_s and R_u also stand in −R_s Q,

    R̄_s = V̄ − G Qᵀ,   Q̄ = −R_sᵀ G,   K̄ = −½ R_sᵀ sym(R̄_s R_sᵀ) R_s,   Ā = Q̄ R_uᵀ − 2 K̄ A,   R̄_u = Ū + Aᵀ Q̄ + Āᵀ Kvu

where K̄ is the gradient for Kvv. From Kvu and Kvv on, to ẑ, Ŵ, r, ℓ and the kernel's variance v, it goes as in `units`;
from R_u on, as in `whitening`.
"""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vecdot

from actgp.features.match import SpectralMatch
from actgp.features.whitening import Weights, magnifies
from actgp.kernels import ZonalKernel
from actgp.linalg import differentiated, inverse_cholesky, inverse_cholesky_gradient, invert, stable_cholesky
from actgp.sphere import evaluated, lift, project
from actgp.tracing import tracing

Parts = tuple[Tensor, Tensor, Tensor]  # directions [M + K, d], R [M + K, M + K], amplitudes v r [K]


def decoupled_whitening(
    W: Float[Tensor, "M d"],
    Z: Float[Tensor, "K D"],
    kernel: ZonalKernel,
    match: SpectralMatch,
    dtype: torch.dtype,
) -> Parts:
    """Directions, R and amplitudes, in a precision, or in float64 where that will not do."""
    inputs = W, Z, kernel.lengthscale, kernel.variance
    if torch.is_grad_enabled() and tracing() is None:
        return DecoupledWhitening.apply(*inputs, kernel, match, dtype)
    return _in_precision(_plainly(*inputs, kernel, match), kernel.variance, len(W), dtype)


class DecoupledWhitening(torch.autograd.Function):
    """(W, Z, ℓ, v) ↦ directions, R, amplitudes for fixed energies."""

    @staticmethod
    def forward(
        ctx: Any,
        W: Tensor,
        Z: Tensor,
        lengthscale: Tensor,
        variance: Tensor,
        kernel: ZonalKernel,
        match: SpectralMatch,
        dtype: torch.dtype,
    ) -> Parts:
        v, device = variance.item(), W.device
        weights = Weights.of(W, v, match.kappa(torch.float64, device))
        r, z = project(lift(Z.double() / lengthscale))
        value, t_slope = match.sigma(torch.float64, device).with_slope(z @ weights.directions.T)
        Kvu = value.mul_(r.unsqueeze(-1))
        A = Kvu @ weights.R.T
        shape, T_slope = kernel.shape_and_slope((z @ z.T).fill_diagonal_(1.0))
        T_slope.fill_diagonal_(0.0)  # ẑ · ẑ = 1 whatever z
        radii = torch.outer(r, r).mul_(v)
        Kvv = shape * radii
        R_s = invert(stable_cholesky(torch.addmm(Kvv, A, A.T, alpha=-1.0)).L)
        Q, M = A @ weights.R, len(W)
        R = torch.zeros(M + len(Z), M + len(Z), dtype=torch.float64, device=device)
        R[:M, :M], R[M:, M:] = weights.R, R_s
        R[M:, :M] = torch.mm(R_s, Q).neg_()
        ctx.kernel, ctx.match = kernel, match
        ctx.save_for_backward(
            W, Z, lengthscale, variance, *weights, r, z, Kvu, t_slope, A, Kvv, T_slope.mul_(radii), R_s.contiguous(), Q
        )
        return _in_precision((torch.cat([weights.directions, z]), R, v * r), variance, M, dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        W, Z, lengthscale, variance, *saved = ctx.saved_tensors
        inputs = W, Z, lengthscale, variance
        if torch.is_grad_enabled():
            plainly = partial(_plainly, kernel=ctx.kernel, match=ctx.match)
            return *differentiated(plainly, inputs, grads), None, None, None
        weights, (r, z, Kvu, t_slope, A, Kvv, T_slope, R_s, Q) = Weights(*saved[:4]), saved[4:]
        M, v, column = len(W), variance.item(), r.unsqueeze(-1)
        directions_grad, R_grad, amplitudes_grad = (grad.double() for grad in grads)
        G = R_grad[M:, :M]
        Q_grad = (R_s.T @ G).neg_()
        K_grad = inverse_cholesky_gradient(R_s, torch.addmm(R_grad[M:, M:], G, Q.T, alpha=-1.0)).mul_(-0.5)
        A_grad = torch.addmm(Q_grad @ weights.R.T, K_grad, A, alpha=-2.0)
        R_u_grad = torch.addmm(R_grad[:M, :M], A.T, Q_grad).addmm_(A_grad.T, Kvu)
        Kvu_grad = A_grad @ weights.R
        t_grad = t_slope * Kvu_grad * column
        weighted = K_grad * Kvv
        along_rows = weighted.sum(1)
        z_grad = torch.addmm(directions_grad[M:], t_grad, weights.directions).addmm_(K_grad * T_slope, z, alpha=2.0)
        r_grad = torch.add(vecdot(Kvu_grad, Kvu), along_rows, alpha=2.0).div_(r).add_(amplitudes_grad, alpha=v)
        # z̃̄ = ẑ̄ / r + ẑ (r̄ − ⟨ẑ, ẑ̄⟩ / r)
        z_grad.div_(column)
        lifted_grad = z_grad.addcmul_(z, (r_grad - vecdot(z, z_grad)).unsqueeze(-1))
        Z_grad = lifted_grad[:, :-1] / lengthscale
        lengthscale_grad = (Z_grad * Z).sum(0, keepdim=True).div_(lengthscale).neg_()
        W_grad, v_grad = weights.gradient(torch.addmm(directions_grad[:M], t_grad.T, z), R_u_grad, v)
        v_grad = v_grad + along_rows.sum() / v + torch.dot(amplitudes_grad, r)
        found = (W_grad, Z_grad, lengthscale_grad, v_grad)
        return *(grad.to(x) for grad, x in zip(found, inputs, strict=True)), None, None, None


def _plainly(
    W: Tensor, Z: Tensor, lengthscale: Tensor, variance: Tensor, kernel: ZonalKernel, match: SpectralMatch
) -> Parts:
    """The same in operations that can be differentiated any number of times."""
    v, device = variance.double(), W.device
    directions = torch.nn.functional.normalize(W.double(), dim=-1)
    kappa, sigma = match.kappa(torch.float64, device), match.sigma(torch.float64, device)
    R_u = inverse_cholesky(evaluated(kappa, directions @ directions.T) / v)
    r, z = project(lift(Z.double() / lengthscale))
    A = (r.unsqueeze(-1) * evaluated(sigma, z @ directions.T)) @ R_u.T
    t = z @ z.T
    exact = t.detach().clamp(-1.0, 1.0).fill_diagonal_(1.0)
    Kvv = v * torch.outer(r, r) * kernel.shape(t + (exact - t.detach()))
    R_s = inverse_cholesky(Kvv - A @ A.T)
    above = torch.nn.functional.pad(R_u, (0, len(R_s)))
    R = torch.cat([above, torch.cat([-R_s @ A @ R_u, R_s], dim=1)])
    return torch.cat([directions, z]), R, v * r


def _in_precision(parts: Parts, variance: Tensor, M: int, dtype: torch.dtype) -> Parts:
    _, R, amplitudes = (part.detach() for part in parts)
    sd = (amplitudes.square().mean() / variance.detach()).sqrt()  # √k(z, z) = √v r
    if dtype == R.dtype or magnifies(R[:M, :M]) or magnifies(R[M:, M:], sd):
        return parts
    directions, R, amplitudes = (part.to(dtype) for part in parts)
    return directions, R, amplitudes
