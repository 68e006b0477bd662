"""Gauss–Newton sweeps over the output weights of all layers at once, towards the network's own outputs.

The layer-by-layer refit makes each layer right on its own; what is left is repaired jointly. With D_ℓ = ∂output/∂h_ℓ at
row i, the output changes with the whitened weights by ∂output_i/∂m_ℓ = a_ℓi D_ℓiᵀ, so the Gram matrix of all rows is

    J Jᵀ = Σ_ℓ (A_ℓᵀ A_ℓ) ∘ (D_ℓ D_ℓᵀ),     (J Jᵀ + λ I) α = residual,     δm_ℓ = A_ℓ diag(α) D_ℓ,

the step of least prior norm Σ ‖δm_ℓ‖² that removes the residual: no matrix is larger than rows × rows. For several
outputs each row stands for one of them, drawn anew in each sweep.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp.layers import GPLayer
from actgp.weights.refit import damped_cholesky, relative_error, undamped

SWEEPS = 16
ROWS = 2_000
FIRST_DAMPING = 1e-4  # λ, relative to the mean of the Gram matrix's diagonal
STEPS = (1.0, 0.5, 0.25)
EASED, TIGHTENED, RESCUED = 0.3, 3.0, 10.0  # what λ is multiplied by after a full step, a short one, and none
PATIENCE = 3
GOOD_ENOUGH = 2e-3

Draw = Callable[[int], Tensor]


class Composition:
    """The composed means as a function of the whitened (and damped) output weights, everything else held fixed."""

    def __init__(self, layers: Sequence[GPLayer]) -> None:
        self.layers = layers
        self.factors = [damped_cholesky(layer.kernel, layer.features).detach() for layer in layers]

    def means(self) -> list[Tensor]:
        """m̃ = L̃ᵀ V of each layer."""
        return [L.T @ layer.output_weights() for layer, L in zip(self.layers, self.factors, strict=True)]

    def __call__(self, X: Float64[Tensor, "N D"], means: Sequence[Tensor]) -> Float64[Tensor, "N P"]:
        """The outputs."""
        return self.trace(X, means)[1][-1]

    def trace(self, X: Float64[Tensor, "N D"], means: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Per layer, A = L⁻¹ Kuf and the outputs Aᵀ m."""
        A, outputs = [], []
        for layer, L, m in zip(self.layers, self.factors, means, strict=True):
            A.append(torch.linalg.solve_triangular(L, layer.features.cross(layer.kernel, X), upper=False))
            outputs.append(A[-1].T @ m)
            X = outputs[-1]
        return A, outputs


def sweep(
    layers: Sequence[GPLayer],
    network: Callable[[Tensor], Tensor],
    draw: Draw,
    judge: Float64[Tensor, "N D"],
    generator: torch.Generator,
) -> int:
    """Improves the output weights of all layers until `judge` shows no more gain; returns how many sweeps helped.

    Args:
        layers: Fitted layers in float64; their q.mean is changed.
        network: What their composition has to give.
        draw: Gives a number of inputs to fit.
        judge: Inputs by which steps are accepted.
        generator: Draws the outputs that rows stand for.
    """
    compose = Composition(layers)
    means = compose.means()
    wanted = network(judge)

    def error(candidate: Sequence[Tensor]) -> float:
        return relative_error(compose(judge, candidate) - wanted, wanted)

    best, damping, failures, helped = error(means), FIRST_DAMPING, 0, 0
    for _ in range(SWEEPS):
        if best < GOOD_ENOUGH or failures == PATIENCE:
            break
        changes = _step(compose, means, network, draw(ROWS), damping, generator)
        candidates = [[m + step * change for m, change in zip(means, changes, strict=True)] for step in STEPS]
        errors = [error(candidate) for candidate in candidates]
        least = errors.index(min(errors))
        if errors[least] < best:
            best, means, failures, helped = errors[least], candidates[least], 0, helped + 1
            damping *= EASED if least == 0 else TIGHTENED if least == len(STEPS) - 1 else 1.0
        else:
            damping, failures = damping * RESCUED, failures + 1
    for layer, m in zip(layers, means, strict=True):
        layer.q.raw_mean.copy_(undamped(layer, m))
    return helped


def _step(
    compose: Composition,
    means: list[Tensor],
    network: Callable[[Tensor], Tensor],
    X: Float64[Tensor, "N D"],
    damping: float,
    generator: torch.Generator,
) -> list[Tensor]:
    """δm of each layer, for rows of one output each."""
    wanted = network(X)
    N, P = wanted.shape
    chosen = torch.randint(P, (N, 1), generator=generator).to(X.device)
    with torch.enable_grad():
        A, outputs = compose.trace(X, [m.requires_grad_() for m in means])
        slopes = torch.autograd.grad(outputs[-1].gather(1, chosen).sum(), outputs)  # D_ℓ: [N, P_ℓ]
    for m in means:
        m.requires_grad_(False)
    A = [a.detach() for a in A]
    gram = sum(((a.T @ a) * (D @ D.T) for a, D in zip(A, slopes, strict=True)), torch.zeros(N, N).to(X))
    residual = (wanted - outputs[-1].detach()).gather(1, chosen)  # [N, 1]
    damped = gram + damping * gram.diagonal().mean() * torch.eye(N).to(X)
    alpha = torch.cholesky_solve(residual, torch.linalg.cholesky(damped))
    return [a @ (alpha * D) for a, D in zip(A, slopes, strict=True)]
