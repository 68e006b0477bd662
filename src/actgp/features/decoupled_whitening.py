"""What whitens activations u and inducing points v together: R = L⁻¹ of both, with the gradient derived by hand.

R_u = L_u⁻¹ is that of the activations (`whitening`). For the points, lifted to z̃ = [z / ℓ, 1] = r ẑ,

    Kvu = r σ̃(ẑ Ŵᵀ),   A = Kvu R_uᵀ,   Kvv = v r rᵀ ∘ s(ẑ ẑᵀ),   R_s = chol(Kvv − A Aᵀ)⁻¹,   Q = A R_u

    R = [ R_u      0  ]
        [ −R_s Q  R_s ]

Backwards, with a bar for gradients, let [Ū, 0; G, V̄] be the blocks of R̄. Since R_s and R_u also stand in −R_s Q,

    R̄_s = V̄ − G Qᵀ,   Q̄ = −R_sᵀ G,   K̄ = −½ R_sᵀ sym(R̄_s R_sᵀ) R_s,   Ā = Q̄ R_uᵀ − 2 K̄ A,   R̄_u = Ū + Aᵀ Q̄ + Āᵀ Kvu

where K̄ is the gradient for Kvv. From Kvu and Kvv on, to ẑ, Ŵ, r, ℓ and the kernel's variance v, it goes as in `units`;
from R_u on, as in `whitening`. Layers that are alike are whitened in one stack, and the gradient has the precision in
which R is given, as there.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vecdot

from actgp.autocast import full_precision
from actgp.features.match import SpectralMatch
from actgp.features.whitening import Weights, by_kind, magnification, precision_for
from actgp.kernels import ZonalKernel
from actgp.linalg import differentiated, inverse_cholesky, inverse_cholesky_gradient, inverse_choleskys
from actgp.sphere import evaluated, lift, project


class Parts(NamedTuple):
    """Of one layer."""

    directions: Float[Tensor, "M+K d"]
    R: Float[Tensor, "M+K M+K"]
    amplitudes: Float[Tensor, " K"]  # v r


class Inputs(NamedTuple):
    """What the whitening of one layer depends on."""

    W: Float[Tensor, "M d"]
    Z: Float[Tensor, "K D"]
    lengthscale: Float[Tensor, "1 D"]
    variance: Float[Tensor, ""]


def decoupled_whitenings(
    layers: Sequence[Inputs], kernel: ZonalKernel, match: SpectralMatch, dtype: torch.dtype
) -> list[Parts]:
    """Directions, R and amplitudes of each layer, in a precision, or in float64 where that will not do.

    Args:
        layers: Layers that are alike.
        kernel: The kernel of one of them: its shape is that of all.
        match: Of units and kernel.
        dtype: The precision.
    """
    if torch.is_grad_enabled():
        found = DecoupledWhitening.apply(kernel, match, dtype, *_flat(layers))
        return [Parts(*parts) for parts in zip(*by_kind(found, len(Parts._fields)), strict=True)]
    return [_in_precision(_plainly(*layer, kernel, match), layer, match, dtype) for layer in layers]


def _flat(layers: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    """The first tensor of each layer, the second of each, and so on."""
    return [tensor for kind in zip(*layers, strict=True) for tensor in kind]


class DecoupledWhitening(torch.autograd.Function):
    """(W, Z, ℓ, v) of each layer ↦ directions, R, amplitudes of each layer, for fixed energies."""

    @staticmethod
    def forward(
        ctx: Any, kernel: ZonalKernel, match: SpectralMatch, dtype: torch.dtype, *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        Ws, Zs, lengthscales, variances = by_kind(inputs, len(Inputs._fields))
        weights, R_u = Weights.of(Ws, variances, match, torch.float64)
        Z, lengthscale, v = (torch.stack(kind).double() for kind in (Zs, lengthscales, variances))
        r, z = project(lift(Z / lengthscale))  # [L, K], [L, K, d]
        column = r.unsqueeze(-1)
        value, t_slope = match.sigma(torch.float64, r.device).with_slope(z @ weights.directions.mT)
        Kvu = value.mul_(column)
        A = Kvu @ R_u.mT
        T = z @ z.mT
        T.diagonal(dim1=-2, dim2=-1).fill_(1.0)
        shape, T_slope = kernel.shape_and_slope(T)
        T_slope.diagonal(dim1=-2, dim2=-1).zero_()  # ẑ · ẑ = 1 whatever z
        amplitudes = r * v.unsqueeze(-1)
        radii = amplitudes.unsqueeze(-1) * r.unsqueeze(-2)
        Kvv = shape * radii
        R_s = inverse_choleskys(torch.baddbmm(Kvv, A, A.mT, alpha=-1.0))
        Q, M, K = A @ R_u, R_u.shape[-1], R_s.shape[-1]
        R = R_u.new_zeros(len(R_u), M + K, M + K)
        R[:, :M, :M], R[:, M:, M:] = R_u, R_s
        R[:, M:, :M] = torch.bmm(R_s, Q).neg_()
        sd = (amplitudes.square().mean(-1) / v).sqrt_()  # √k(z, z) = √v r
        largest = torch.maximum(magnification(R_u), magnification(R_s, sd))
        own = precision_for(dtype, match, largest)
        ctx.kernel, ctx.match = kernel, match
        saved = (Z, lengthscale, v, *weights, r, z, Kvu, t_slope, A, Kvv, T_slope.mul_(radii), R_s, Q)
        ctx.save_for_backward(*inputs, *(tensor.to(own) for tensor in saved))
        parts = (torch.cat([weights.directions, z], dim=1), R, amplitudes)
        return tuple(each for part in parts for each in part.to(own).unbind())

    @staticmethod
    @full_precision
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, Z, lengthscale, v, lengths, directions, slope, R_u, r, z = ctx.saved_tensors[:-7]
        Kvu, t_slope, A, Kvv, T_slope, R_s, Q = ctx.saved_tensors[-7:]
        if torch.is_grad_enabled():
            plainly = partial(_all_plainly, kernel=ctx.kernel, match=ctx.match)
            return None, None, None, *differentiated(plainly, tuple(inputs), grads)
        kinds = by_kind(grads, len(Parts._fields))
        directions_grad, R_grad, amplitudes_grad = (torch.stack(kind) for kind in kinds)
        M, column = R_u.shape[-1], r.unsqueeze(-1)
        G = R_grad[:, M:, :M]
        Q_grad = (R_s.mT @ G).neg_()
        K_grad = inverse_cholesky_gradient(R_s, torch.baddbmm(R_grad[:, M:, M:], G, Q.mT, alpha=-1.0)).mul_(-0.5)
        A_grad = torch.baddbmm(Q_grad @ R_u.mT, K_grad, A, alpha=-2.0)
        R_u_grad = torch.baddbmm(R_grad[:, :M, :M], A.mT, Q_grad).baddbmm_(A_grad.mT, Kvu)
        Kvu_grad = A_grad @ R_u
        t_grad = (t_slope * Kvu_grad).mul_(column)
        along_rows = vecdot(K_grad, Kvv)
        z_grad = torch.baddbmm(directions_grad[:, M:], t_grad, directions).baddbmm_(K_grad * T_slope, z, alpha=2.0)
        r_grad = torch.add(vecdot(Kvu_grad, Kvu), along_rows, alpha=2.0).div_(r)
        r_grad.addcmul_(amplitudes_grad, v.unsqueeze(-1))
        # z̃̄ = ẑ̄ / r + ẑ (r̄ − ⟨ẑ, ẑ̄⟩ / r)
        z_grad.div_(column)
        lifted_grad = z_grad.addcmul_(z, r_grad.sub_(vecdot(z, z_grad)).unsqueeze(-1))
        Z_grad = lifted_grad[..., :-1] / lengthscale
        lengthscale_grad = (Z_grad * Z).sum(-2, keepdim=True).div_(lengthscale).neg_()
        W_grad, v_grad = Weights(lengths, directions, slope, R_u).gradient(
            torch.baddbmm(directions_grad[:, :M], t_grad.mT, z), R_u_grad @ R_u.mT, v
        )
        v_grad = v_grad.add_(along_rows.sum(-1) / v).add_(vecdot(amplitudes_grad, r))
        found = [grad for kind in (W_grad, Z_grad, lengthscale_grad, v_grad) for grad in kind.unbind()]
        return None, None, None, *(grad.to(given.dtype) for grad, given in zip(found, inputs, strict=True))


def _plainly(
    W: Tensor, Z: Tensor, lengthscale: Tensor, variance: Tensor, kernel: ZonalKernel, match: SpectralMatch
) -> Parts:
    """The same for one layer, in operations that can be differentiated any number of times."""
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
    return Parts(torch.cat([directions, z]), R, v * r)


def _all_plainly(*inputs: Tensor, kernel: ZonalKernel, match: SpectralMatch) -> tuple[Tensor, ...]:
    layers = [Inputs(*layer) for layer in zip(*by_kind(inputs, len(Inputs._fields)), strict=True)]
    return tuple(_flat([_plainly(*layer, kernel, match) for layer in layers]))


def _in_precision(parts: Parts, layer: Inputs, match: SpectralMatch, dtype: torch.dtype) -> Parts:
    _, R, amplitudes = (part.detach() for part in parts)
    M, sd = len(layer.W), (amplitudes.square().mean() / layer.variance.detach()).sqrt()
    largest = torch.maximum(magnification(R[:M, :M]), magnification(R[M:, M:], sd))
    own = precision_for(dtype, match, largest)
    return Parts(*(part.to(own) for part in parts))
