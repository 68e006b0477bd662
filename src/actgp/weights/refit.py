"""One GP layer fitted to given values in closed form: directions from the network's weights, output weights refitted.

A unit σ(w·x + b) has the direction of [w ∘ ℓ, b], since w·x + b = [w ∘ ℓ, b] · [x / ℓ, 1]. ReLU is homogeneous: the
norm of that vector goes into the output weights. For the smooth activations it is a sharpness, which the feature
r σ_β(ŵ·x̂) has in common for all units; copies of the units with a shifted bias give the refit what it
needs to make up for that, and the refit chooses β and the scale of ℓ.

    m = argmin ‖T − Aᵀ m‖² + λ ‖m‖²,     A = L⁻¹ Kuf,     λ by generalised cross-validation.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from actgp.activations import Activation
from actgp.features import ActivatedFeatures, InducingFeatures
from actgp.kernels import ZonalKernel
from actgp.layers import GPLayer
from actgp.linalg import stable_cholesky
from actgp.weights.head import Dense

SHARPNESSES = (1.0, 2.0, 4.0)
LENGTHSCALES = (1.0, 2.0)
SHIFT = 0.5  # of the bias, in units of ‖w ∘ ℓ‖
TOLERANCE = 1.1  # a smoother layer is preferred if its error is at most so many times the least
RIDGES = tuple(10.0**k for k in range(-12, 0))
DAMPING = 1e-6  # κ relative to the diagonal of Kuu: large output weights would magnify the round-off of float32
ROUND_OFF = 1e-6  # ε, of a unit's value in float32, with a margin
TINY = 1e-150

KernelOf = Callable[[int, Activation], ZonalKernel]


class Ridge(NamedTuple):
    """Whitened output weights, with the ridge that cross-validation chose."""

    mean: Float64[Tensor, "M P"]
    ridge: float


class Fitted(NamedTuple):
    """A fitted layer: kernel, features, whitened (and damped) output weights; and its error on rows it has not seen."""

    kernel: ZonalKernel
    features: ActivatedFeatures
    mean: Float64[Tensor, "M P"]
    error: float


def relative_error(difference: Tensor, reference: Tensor) -> float:
    """RMSE over the standard deviation of the reference values, over all outputs."""
    spread = (reference - reference.mean(0)).square().mean().sqrt().item()
    size = reference.square().mean().sqrt().item()
    scale = spread if spread > 1e-9 * size else size  # values that do not vary are compared with their size
    return difference.square().mean().sqrt().item() / max(scale, TINY)


def directions(units: Dense, scales: Float64[Tensor, " D"], num_inducing: int, order: Tensor) -> Float64[Tensor, "M d"]:
    """M directions: the units in order of influence, ± the bias coordinate, then copies of the units with shifted bias.

    The pair on the bias coordinate makes constants exact: σ(t) − σ(−t) = t for every activation here but tanh.
    """
    scaled = units.W[order] * scales  # [H, D]
    sizes = torch.linalg.vector_norm(scaled, dim=-1)

    def with_bias(bias: Tensor) -> Tensor:
        return torch.cat([scaled, bias[:, None]], dim=-1)  # [H, d]

    constant = nn.functional.pad(torch.zeros_like(scaled[:1]), (0, 1), value=1.0)  # [1, d]
    parts = [with_bias(units.b[order]), constant, -constant]
    copies = 1 + num_inducing // len(scaled)
    shifts = [SHIFT * (1 + k // 2) * (-1) ** k for k in range(copies)]  # ½, −½, 1, −1, …
    parts += [with_bias(units.b[order] + shift * sizes) for shift in shifts]
    return nn.functional.normalize(torch.cat(parts)[:num_inducing], dim=-1)


def fit_layer(
    units: Dense,
    activations: list[Activation],
    kernel_of: KernelOf,
    num_levels: int,
    num_inducing: int,
    order: Tensor,
    scales: Float64[Tensor, " D"],
    inputs: list[Tensor],
    targets: list[Tensor],
) -> Fitted:
    """The layer, among those of a grid of sharpnesses and lengthscales, that fits best.

    Args:
        units: The network's units as functions of the layer's inputs.
        activations: The candidates, from smooth to sharp.
        kernel_of: Builds a kernel from a number of inputs and an activation.
        num_levels: Ñ.
        num_inducing: M.
        order: The units in order of importance.
        scales: Lengthscales, up to a common factor that is chosen too.
        inputs: The layer's inputs: rows to fit, and rows to judge by.
        targets: What it has to give there.
    """
    fits = []
    for activation in activations:
        for factor in LENGTHSCALES:
            kernel = kernel_of(inputs[0].shape[1], activation).to(inputs[0])
            kernel.lengthscale = (factor * scales)[None]
            W = directions(units, factor * scales, num_inducing, order)
            features = ActivatedFeatures(inputs[0].shape[1], len(W), activation, num_levels).to(inputs[0])
            features.weights = nn.Parameter(W)
            L = damped_cholesky(kernel, features)
            Kuf, judged = (features.cross(kernel, X) for X in inputs)
            # Rows of nothing but round-off, to which the answer is zero: they charge ε² N mean(Kuf²) ‖V‖².
            noise = ROUND_OFF * Kuf.norm() / len(Kuf) ** 0.5 * torch.eye(len(Kuf)).to(Kuf)  # [M, M]
            A = torch.linalg.solve_triangular(L, torch.cat([Kuf, noise], dim=1), upper=False)
            A_judge = torch.linalg.solve_triangular(L, judged, upper=False)
            mean = ridge(A, nn.functional.pad(targets[0], (0, 0, 0, len(Kuf)))).mean
            fits.append(Fitted(kernel, features, mean, relative_error(A_judge.T @ mean - targets[1], targets[1])))
    least = min(fit.error for fit in fits)
    return next(fit for fit in fits if fit.error <= TOLERANCE * least)


def damped_cholesky(kernel: ZonalKernel, features: InducingFeatures) -> Float64[Tensor, "M M"]:
    """L of Kuu + κ I. Its whitened weights m̃ charge κ ‖V‖² on top of the prior norm, and so bound V = L⁻ᵀ m̃."""
    return stable_cholesky(features.Kuu(kernel), DAMPING).L


def undamped(layer: GPLayer, m: Float64[Tensor, "M P"]) -> Float64[Tensor, "M P"]:
    """The weights that mean with the layer's own L what m̃ means with the damped one: Lᵀ L̃⁻ᵀ m̃."""
    damped = damped_cholesky(layer.kernel, layer.features)
    return layer.cholesky().L.T @ torch.linalg.solve_triangular(damped.T, m, upper=True)


def ridge(A: Float64[Tensor, "M N"], T: Float64[Tensor, "N P"]) -> Ridge:
    """m = (A Aᵀ + λ I)⁻¹ A T, with λ of the least GCV score ‖T − Aᵀ m‖² / (N − tr)²."""
    values, U = torch.linalg.eigh(A @ A.T)
    values = values.clamp_min(0.0)
    UAT = U.T @ (A @ T)  # [M, P]
    total, N = T.square().sum(), len(T)
    best: tuple[float, float] | None = None
    for relative in RIDGES:
        lam = relative * values[-1] + TINY
        shrunk = UAT / (values + lam)[:, None]
        # ‖T − Aᵀ m‖² = ‖T‖² − 2 mᵀ A T + mᵀ A Aᵀ m
        residual = total - 2 * (shrunk * UAT).sum() + (values[:, None] * shrunk.square()).sum()
        freedom = max(N - (values / (values + lam)).sum().item(), 1e-3 * N)
        score = max(residual.item(), 1e-15 * total.item()) / freedom**2
        if best is None or score < best[0]:
            best = (score, float(lam))
    assert best is not None
    return Ridge(U @ (UAT / (values + best[1])[:, None]), best[1])
