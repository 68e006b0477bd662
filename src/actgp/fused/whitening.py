"""What whitens the layers of a model: `InducingFeatures.whitening`, with gradients derived by hand.

Hidden units u:

    Ŵ = W / ‖w‖,   T = Ŵ Ŵᵀ,   Kuu = κ(T) / v,   R_u = L_u⁻¹ = √v chol(κ(T))⁻¹

and backwards, with a bar for gradients, where sym mirrors the lower triangle,

    B = R̄_u R_uᵀ,   K̄ = −½ R_uᵀ sym(B) R_u / v,   Ŵ̄ += 2 (K̄ ∘ κ'(T)) Ŵ,   w̄ = (ŵ̄ − ŵ ⟨ŵ, ŵ̄⟩) / ‖w‖,   v̄ = tr B / 2v

Inducing points v beside them, lifted to z̃ = [z / ℓ, 1] = r ẑ:

    Kvu = r σ̃(ẑ Ŵᵀ),   A = Kvu R_uᵀ,   Kvv = v r rᵀ ∘ s(ẑ ẑᵀ),   R_s = chol(Kvv − A Aᵀ)⁻¹,   Q = A R_u

    R = [ R_u      0  ]
        [ −R_s Q  R_s ]

With [Ū, 0; G, V̄] for the blocks of R̄, and since R_s and R_u also stand in −R_s Q,

    R̄_s = V̄ − G Qᵀ,   Q̄ = −R_sᵀ G,   K̄ = −½ R_sᵀ sym(R̄_s R_sᵀ) R_s,   Ā = Q̄ R_uᵀ − 2 K̄ A,   R̄_u = Ū + Aᵀ Q̄ + Āᵀ Kvu

where K̄ is the gradient for Kvv. From Kvu and Kvv on, to ẑ, Ŵ, r, ℓ and v, it goes as in `fused.units`.

The diagonal of κ(T), and with it the jitter, does not depend on the weights. R is found in float64. R̄ comes from layers
in the precision that they are computed in, with an error that is magnified on the way to W̄: hardly a digit is gained by
going on from it in a finer one.

Layers that are alike, with as many units and points, as many inputs and the same spectra, are whitened in one stack of
L: on matrices as small as these, calling an operation costs as much as carrying it out.
"""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any

import torch
from gpytorch.kernels import Kernel
from torch import Tensor
from torch.linalg import vecdot
from torch.nn.functional import normalize

from actgp.autocast import full_precision
from actgp.features import ActivatedFeatures, DecoupledFeatures, InducingFeatures, SpectralMatch, Units, Whitening
from actgp.features.activated import LARGEST_NORM
from actgp.features.base import magnification, precision_for
from actgp.features.decoupled import joint_inverse
from actgp.features.points import is_zonal
from actgp.features.units import Shapes
from actgp.fused.plain import differentiated
from actgp.kernels import ZonalKernel
from actgp.linalg import half_sandwich, inverse_cholesky, inverse_cholesky_gradient, inverse_choleskys
from actgp.sphere import evaluated, lift, project

Pair = tuple[InducingFeatures, Kernel]


def whitenings(pairs: Sequence[Pair], dtype: torch.dtype) -> list[Whitening]:
    """The whitening of each pair of features and kernel, as `InducingFeatures.whitening` gives it.

    With gradients, those of layers that are alike are found together, in the precision that the neediest needs.
    """
    found: dict[int, Whitening] = {}
    groups = _alike(pairs) if torch.is_grad_enabled() else {}
    for (kind, match, *_), places in groups.items():
        together = _units_alone if kind is ActivatedFeatures else _units_and_points
        found |= zip(places, together([pairs[i] for i in places], match, dtype), strict=True)
    return [found.get(i) or features.whitening(kernel, dtype) for i, (features, kernel) in enumerate(pairs)]


def _alike(pairs: Sequence[Pair]) -> dict[Any, list[int]]:
    """The places of pairs that can be whitened together; of no others, nor of classes derived from these."""
    groups: dict[Any, list[int]] = {}
    for i, (features, kernel) in enumerate(pairs):
        if type(features) in (ActivatedFeatures, DecoupledFeatures) and is_zonal(kernel) and not kernel.learns_shape:
            match = _activated(features).match(kernel)  # one object for the same spectra
            if not match.learnt:
                groups.setdefault((type(features), match, type(kernel), features.blocks), []).append(i)
    return groups


def _activated(features: InducingFeatures) -> ActivatedFeatures:
    """The hidden units of features that have some."""
    own = features.activated if isinstance(features, DecoupledFeatures) else features
    assert isinstance(own, ActivatedFeatures)
    return own


def _units_alone(pairs: Sequence[Pair], match: SpectralMatch, dtype: torch.dtype) -> list[Whitening]:
    W = torch.stack([_activated(features).weights for features, _ in pairs])
    v = torch.stack([kernel.variance for _, kernel in pairs])
    w, R, own = WhitenedUnits.apply(match, dtype, W, v)
    shapes = Shapes(match.sigma(own, W.device), W.shape[1], None)
    parts = zip(pairs, w.to(own).unbind(), v.to(own).unbind(), R.unbind(), strict=True)
    return [
        Whitening(R, own, Units(kernel.lengthscale.to(own), directions, variance, None, shapes))
        for (_, kernel), directions, variance, R in parts
    ]


def _units_and_points(pairs: Sequence[Pair], match: SpectralMatch, dtype: torch.dtype) -> list[Whitening]:
    W = torch.stack([_activated(features).weights for features, _ in pairs])
    Z = torch.stack([features.points.locations for features, _ in pairs if isinstance(features, DecoupledFeatures)])
    lengthscale = torch.stack([kernel.lengthscale for _, kernel in pairs])
    v = torch.stack([kernel.variance for _, kernel in pairs])
    w, R_u, units_own = WhitenedUnits.apply(match, dtype, W, v)
    directions, R, amplitudes, own = WhitenedPoints.apply(pairs[0][1], match, units_own, w, R_u, Z, lengthscale, v)
    sigma = match.sigma(own, W.device)
    kinds = (kind.to(own).unbind() for kind in (lengthscale, directions, v, amplitudes))
    return [
        Whitening(R, own, Units(scales, w, variance, c, Shapes(sigma, W.shape[1], kernel)))
        for (_, kernel), R, scales, w, variance, c in zip(pairs, R.unbind(), *kinds, strict=True)
    ]


def _precision(match: SpectralMatch, dtype: torch.dtype, largest: float) -> torch.dtype:
    return precision_for(dtype, inf if match.norm > LARGEST_NORM else largest)


class WhitenedUnits(torch.autograd.Function):
    """(W, v) ↦ Ŵ, R_u of a stack of layers, in float64, for fixed spectra; and the precision that will do."""

    @staticmethod
    def forward(
        ctx: Any, match: SpectralMatch, dtype: torch.dtype, *inputs: Tensor
    ) -> tuple[Tensor, Tensor, torch.dtype]:
        W, v = (tensor.double() for tensor in inputs)
        lengths = torch.linalg.vector_norm(W, dim=-1, keepdim=True)
        w = W / lengths
        T = torch.bmm(w, w.mT)
        kappa = match.kappa_polynomial(W.device)
        R = inverse_choleskys(kappa(T), v.sqrt())
        own = _precision(match, dtype, magnification(R))
        ctx.match = match
        ctx.save_for_backward(*inputs, *(tensor.to(own) for tensor in (v, lengths, w, kappa.derivative(T), R)))
        return w, R, own

    @staticmethod
    @full_precision
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, v, lengths, w, slope, R = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, None, *differentiated(partial(_plain_units, ctx.match), tuple(inputs), grads[:2])
        w_grad, R_grad = (grad.to(R.dtype) for grad in grads[:2])
        B = R_grad @ R.mT
        half = half_sandwich(R, B).mul_(slope)  # with its transpose −2 v K̄ ∘ κ'(T)
        across = w.mT
        both = torch.baddbmm(torch.bmm(across, half), across, half.mT).mT  # (Hᵀ + H) Ŵ, transposed: few columns
        w_grad = w_grad.addcdiv(both, v.view(-1, 1, 1), value=-1.0)
        W_grad = w_grad.addcmul_(w, vecdot(w_grad, w).unsqueeze(-1), value=-1.0).div_(lengths)
        v_grad = B.diagonal(dim1=-2, dim2=-1).sum(-1).div_(2 * v)
        return None, None, *(grad.to(given.dtype) for grad, given in zip((W_grad, v_grad), inputs, strict=True))


class WhitenedPoints(torch.autograd.Function):
    """(Ŵ, R_u, Z, ℓ, v) ↦ directions [Ŵ, ẑ], R and amplitudes [1, v r], likewise."""

    @staticmethod
    def forward(
        ctx: Any, kernel: ZonalKernel, match: SpectralMatch, dtype: torch.dtype, *inputs: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, torch.dtype]:
        w, R_u, Z, lengthscale, v = (tensor.double() for tensor in inputs)
        r, z = project(lift(Z / lengthscale))  # [L, K], [L, K, d]
        column = r.unsqueeze(-1)
        sigma, t_slope = match.sigma_polynomial(torch.float64, r.device).with_slope(z @ w.mT)
        Kvu = sigma.mul_(column)
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
        own = precision_for(dtype, magnification(R_s, sd))
        ctx.kernel, ctx.match = kernel, match
        saved = (w, R_u, Z, lengthscale, v, r, z, Kvu, t_slope, A, Kvv, T_slope.mul_(radii), R_s, Q)
        ctx.save_for_backward(*inputs, *(tensor.to(own) for tensor in saved))
        ones = amplitudes.new_ones(len(w), M)
        return torch.cat([w, z], dim=1), R, torch.cat([ones, amplitudes], dim=1), own

    @staticmethod
    @full_precision
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors[:5]
        w, R_u, Z, lengthscale, v, r, z, Kvu, t_slope, A, Kvv, T_slope, R_s, Q = ctx.saved_tensors[5:]
        if torch.is_grad_enabled():
            plain = partial(_plain_points, ctx.kernel, ctx.match)
            return None, None, None, *differentiated(plain, inputs, grads[:3])
        directions_grad, R_grad, amplitudes_grad = (grad.to(R_s.dtype) for grad in grads[:3])
        M, column = R_u.shape[-1], r.unsqueeze(-1)
        amplitudes_grad = amplitudes_grad[:, M:]
        G = R_grad[:, M:, :M]
        Q_grad = (R_s.mT @ G).neg_()
        K_grad = inverse_cholesky_gradient(R_s, torch.baddbmm(R_grad[:, M:, M:], G, Q.mT, alpha=-1.0)).mul_(-0.5)
        A_grad = torch.baddbmm(Q_grad @ R_u.mT, K_grad, A, alpha=-2.0)
        R_u_grad = torch.baddbmm(R_grad[:, :M, :M], A.mT, Q_grad).baddbmm_(A_grad.mT, Kvu)
        Kvu_grad = A_grad @ R_u
        t_grad = (t_slope * Kvu_grad).mul_(column)
        along_rows = vecdot(K_grad, Kvv)
        z_grad = torch.baddbmm(directions_grad[:, M:], t_grad, w).baddbmm_(K_grad * T_slope, z, alpha=2.0)
        r_grad = torch.add(vecdot(Kvu_grad, Kvu), along_rows, alpha=2.0).div_(r)
        r_grad.addcmul_(amplitudes_grad, v.unsqueeze(-1))
        # z̃̄ = ẑ̄ / r + ẑ (r̄ − ⟨ẑ, ẑ̄⟩ / r)
        z_grad.div_(column)
        lifted_grad = z_grad.addcmul_(z, r_grad.sub_(vecdot(z, z_grad)).unsqueeze(-1))
        Z_grad = lifted_grad[..., :-1] / lengthscale
        lengthscale_grad = (Z_grad * Z).sum(-2, keepdim=True).div_(lengthscale).neg_()
        w_grad = torch.baddbmm(directions_grad[:, :M], t_grad.mT, z)
        v_grad = (along_rows.sum(-1) / v).add_(vecdot(amplitudes_grad, r))
        found = (w_grad, R_u_grad, Z_grad, lengthscale_grad, v_grad)
        return None, None, None, *(grad.to(given.dtype) for grad, given in zip(found, inputs, strict=True))


def _plain_units(match: SpectralMatch, W: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Ŵ and R_u in operations that can be differentiated any number of times."""
    w = normalize(W.double(), dim=-1)
    Kuu = match.kappa(w @ w.mT) / v.double().view(-1, 1, 1)
    return w, torch.stack([inverse_cholesky(K) for K in Kuu])


def _plain_points(
    kernel: ZonalKernel, match: SpectralMatch, w: Tensor, R_u: Tensor, Z: Tensor, lengthscale: Tensor, v: Tensor
) -> tuple[Tensor, ...]:
    """Directions, R and amplitudes likewise."""
    r, z = project(lift(Z.double() / lengthscale))
    t = z @ z.mT
    exact = t.detach().clamp(-1.0, 1.0)
    exact.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    amplitudes = v.double().unsqueeze(-1) * r
    Kvv = amplitudes.unsqueeze(-1) * r.unsqueeze(-2) * kernel.shape(t + (exact - t.detach()))
    A = r.unsqueeze(-1) * evaluated(match.sigma_polynomial(torch.float64, Z.device), z @ w.mT) @ R_u.mT
    R = torch.stack([joint_inverse(*layer)[0] for layer in zip(R_u, A, Kvv, strict=True)])
    ones = amplitudes.new_ones(len(w), w.shape[1])
    return torch.cat([w, z], dim=1), R, torch.cat([ones, amplitudes], dim=1)
