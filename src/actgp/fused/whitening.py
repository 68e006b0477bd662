"""What whitens activations u and inducing points v: `DecoupledFeatures.whitening`, with the gradient derived by hand.

    Ŵ = W / ‖w‖,   T_u = Ŵ Ŵᵀ,   Kuu = κ(T_u) / v,   R_u = √v chol(κ(T_u))⁻¹
    z̃ = [z / ℓ, 1] = r ẑ,   Kvu = r σ̃(ẑ Ŵᵀ),   A = Kvu R_uᵀ,   Kvv = v r rᵀ ∘ s(ẑ ẑᵀ),   R_s = chol(Kvv − A Aᵀ)⁻¹

    R = [ R_u      0  ]        Q = A R_u
        [ −R_s Q  R_s ]

Backwards, with a bar for gradients, let [Ū, 0; G, V̄] be the blocks of R̄. Since R_s and R_u also stand in −R_s Q,

    R̄_s = V̄ − G Qᵀ,   Q̄ = −R_sᵀ G,   K̄vv = −½ R_sᵀ sym(R̄_s R_sᵀ) R_s,   Ā = Q̄ R_uᵀ − 2 K̄vv A
    R̄_u = Ū + Aᵀ Q̄ + Āᵀ Kvu,   B = R̄_u R_uᵀ,   K̄ = −½ R_uᵀ sym(B) R_u / v     (of κ(T_u))
    Ŵ̄ += 2 (K̄ ∘ κ'(T_u)) Ŵ,   w̄ = (ŵ̄ − ŵ ⟨ŵ, ŵ̄⟩) / ‖w‖,   v̄ = tr B / 2v + …

where sym mirrors the lower triangle. From Kvu and Kvv on, to ẑ, Ŵ, r, ℓ and v, it goes as in `fused.units`.

The diagonal of κ(T_u), and with it the jitter, does not depend on the weights. R is found in float64. R̄ comes in the
precision that the layer is computed in, with an error that is magnified on the way to W̄: hardly a digit is gained by
going on from it in a finer one.

Layers that are alike, with as many units and points, as many inputs and the same spectra, are whitened in one stack:
on matrices as small as these, calling an operation costs as much as carrying it out.
"""

from collections.abc import Hashable, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple, TypeVar

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vecdot

from actgp.autocast import full_precision
from actgp.features import DecoupledFeatures, InducingFeatures, SpectralMatch, Units, Whitening
from actgp.features.activated import LARGEST_NORM
from actgp.features.base import Inverse, magnification
from actgp.features.decoupled import joint_inverse
from actgp.features.points import is_zonal
from actgp.features.units import Shapes
from actgp.fused.plain import differentiated
from actgp.kernels import ZonalKernel
from actgp.linalg import half_sandwich, inverse_cholesky, inverse_cholesky_gradient, inverse_choleskys
from actgp.sphere import evaluated, lift, project

Pair = tuple[InducingFeatures, Kernel]
T = TypeVar("T")


class Inputs(NamedTuple):
    """What the whitening of one layer depends on."""

    W: Float[Tensor, "M d"]
    Z: Float[Tensor, "K D"]
    lengthscale: Float[Tensor, "1 D"]
    variance: Float[Tensor, ""]


class Outputs(NamedTuple):
    """Directions of units and points, R, and the amplitudes c = [1, v r] of one layer."""

    directions: Float[Tensor, "M+K d"]
    R: Float[Tensor, "M+K M+K"]
    amplitudes: Float[Tensor, " M+K"]


def whitenings(pairs: Sequence[Pair], dtype: torch.dtype) -> list[Whitening]:
    """The whitening of each pair of features and kernel, as `InducingFeatures.whitening` gives it.

    Those of layers that are alike have one gradient, and the precision that the neediest of them needs.
    """
    found: dict[int, Whitening] = {}
    for (match, _, (M, _)), places in _alike(pairs).items():
        features, kernels = zip(*(pairs[i] for i in places), strict=True)
        layers = [
            Inputs(own.activated.weights, own.points.locations, kernel.lengthscale, kernel.variance)
            for own, kernel in zip(features, kernels, strict=True)
        ]
        flat = [tensor for kind in zip(*layers, strict=True) for tensor in kind]
        outputs = _by_kind(StackedWhitening.apply(kernels[0], match, dtype, *flat), len(Outputs._fields))
        for i, kernel, (directions, R, amplitudes) in zip(places, kernels, zip(*outputs, strict=True), strict=True):
            shapes = Shapes(match.sigma(R.dtype, R.device), M, kernel)
            units = Units(kernel.lengthscale.to(R), directions, kernel.variance.to(R), amplitudes, shapes)
            found[i] = Whitening(R, units)
    return [found.get(i) or features.whitening(kernel, dtype) for i, (features, kernel) in enumerate(pairs)]


def _alike(pairs: Sequence[Pair]) -> dict[tuple[SpectralMatch, Hashable, tuple[int, int]], list[int]]:
    """The places of pairs that can be whitened together; of no others, nor of classes derived from these."""
    groups: dict[Any, list[int]] = {}
    for i, (features, kernel) in enumerate(pairs):
        if type(features) is DecoupledFeatures and is_zonal(kernel) and not kernel.learns_shape:
            match = features.activated.match(kernel)  # one object for the same spectra
            if not match.learnt:
                groups.setdefault((match, type(kernel), features.blocks), []).append(i)
    return groups


class StackedWhitening(torch.autograd.Function):
    """(W, Z, ℓ, v) of each layer ↦ directions, R, amplitudes of each layer, for fixed spectra."""

    @staticmethod
    def forward(
        ctx: Any, kernel: ZonalKernel, match: SpectralMatch, dtype: torch.dtype, *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        W, Z, lengthscale, v = (torch.stack(kind).double() for kind in _by_kind(inputs, len(Inputs._fields)))
        lengths = torch.linalg.vector_norm(W, dim=-1, keepdim=True)
        w = W / lengths
        T_u = torch.bmm(w, w.mT)
        kappa = match.kappa_polynomial(W.device)
        R_u = inverse_choleskys(kappa(T_u), v.sqrt())
        r, z = project(lift(Z / lengthscale))  # [L, K], [L, K, d]
        column = r.unsqueeze(-1)
        sigma, t_slope = match.sigma(torch.float64, r.device).with_slope(z @ w.mT)
        Kvu = sigma.mul_(column)
        A = Kvu @ R_u.mT
        T_v = z @ z.mT
        T_v.diagonal(dim1=-2, dim2=-1).fill_(1.0)
        shape, T_slope = kernel.shape_and_slope(T_v)
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
        largest = inf if match.norm > LARGEST_NORM else max(magnification(R_u), magnification(R_s, sd))
        own = Inverse(R, largest).precision(dtype)
        kappa_slope = kappa.derivative(T_u)
        ctx.kernel, ctx.match = kernel, match
        saved = (Z, lengthscale, v, lengths, w, kappa_slope, R_u, r, z, Kvu, t_slope, A, Kvv, T_slope.mul_(radii), R_s)
        ctx.save_for_backward(*inputs, *(tensor.to(own) for tensor in (*saved, Q)))
        ones = amplitudes.new_ones(len(w), M)
        parts = (torch.cat([w, z], dim=1), R, torch.cat([ones, amplitudes], dim=1))
        return tuple(each for part in parts for each in part.to(own).unbind())

    @staticmethod
    @full_precision
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, Z, lengthscale, v, lengths, w, kappa_slope, R_u, r, z = ctx.saved_tensors[:-7]
        Kvu, t_slope, A, Kvv, T_slope, R_s, Q = ctx.saved_tensors[-7:]
        if torch.is_grad_enabled():
            plain = partial(_plain, kernel=ctx.kernel, match=ctx.match)
            return None, None, None, *differentiated(plain, tuple(inputs), grads)
        kinds = _by_kind(grads, len(Outputs._fields))
        directions_grad, R_grad, amplitudes_grad = (torch.stack(kind) for kind in kinds)
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
        B = R_u_grad @ R_u.mT
        half = half_sandwich(R_u, B).mul_(kappa_slope)  # with its transpose −2 v K̄ ∘ κ'(T_u)
        both = torch.bmm(half + half.mT, w)
        w_grad = torch.baddbmm(directions_grad[:, :M], t_grad.mT, z).addcdiv_(both, v.view(-1, 1, 1), value=-1.0)
        W_grad = w_grad.addcmul_(w, vecdot(w_grad, w).unsqueeze(-1), value=-1.0).div_(lengths)
        v_grad = B.diagonal(dim1=-2, dim2=-1).sum(-1).div_(2 * v)
        v_grad.add_(along_rows.sum(-1) / v).add_(vecdot(amplitudes_grad, r))
        found = [grad for kind in (W_grad, Z_grad, lengthscale_grad, v_grad) for grad in kind.unbind()]
        return None, None, None, *(grad.to(given.dtype) for grad, given in zip(found, inputs, strict=True))


def _by_kind(tensors: Sequence[T], kinds: int) -> list[tuple[T, ...]]:
    """Tensors of all layers, those of one kind after those of the other, such as weights and variances, by kind."""
    number = len(tensors) // kinds
    return [tuple(tensors[start : start + number]) for start in range(0, len(tensors), number)]


def _plain(*inputs: Tensor, kernel: ZonalKernel, match: SpectralMatch) -> tuple[Tensor, ...]:
    """The plain formula as a function of the inputs alone."""
    layers = [_plain_layer(*layer, kernel, match) for layer in zip(*_by_kind(inputs, len(Inputs._fields)), strict=True)]
    return tuple(tensor for kind in zip(*layers, strict=True) for tensor in kind)


def _plain_layer(
    W: Tensor, Z: Tensor, lengthscale: Tensor, variance: Tensor, kernel: ZonalKernel, match: SpectralMatch
) -> Outputs:
    v = variance.double()
    w = torch.nn.functional.normalize(W.double(), dim=-1)
    R_u = inverse_cholesky(match.kappa(w @ w.T) / v)
    r, z = project(lift(Z.double() / lengthscale))
    sigma = match.sigma(torch.float64, W.device)
    A = (r.unsqueeze(-1) * evaluated(sigma, z @ w.T)) @ R_u.T
    t = z @ z.T
    exact = t.detach().clamp(-1.0, 1.0).fill_diagonal_(1.0)
    Kvv = v * torch.outer(r, r) * kernel.shape(t + (exact - t.detach()))
    R, _ = joint_inverse(R_u, A, Kvv)
    return Outputs(torch.cat([w, z]), R, torch.cat([v.new_ones(len(w)), v * r]))
