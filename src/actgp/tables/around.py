"""A deep GP of two layers around networks: their mean where data say nothing else, and a density of any shape.

    h₀ = [x, μ(x)],     h₁ = R h₀ + g₁(h₀),     f = μ-columns of h₁ + g₂(h₁)

R keeps the P columns of μ, and the inputs, or their first principal components where there are many. With q(u) at m = 0
the mean is μ. Since h₁ carries an uncertain μ, the mixture over sampled h₁ need not be normal, nor have one peak.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.features import InducingPoints, centres
from actgp.kernels import ArcCosine
from actgp.layers import GPLayer
from actgp.likelihoods import ContaminatedGaussianLikelihood
from actgp.models import DeepGP
from actgp.models.columns import Columns
from actgp.training import Recipe, fit

NUM_INDUCING = 64
WIDEST = 16  # columns of h₁ beside μ
VARIANCE = 0.1  # of each kernel, to begin with
SEED = 0


def deep_gp_around(
    h: Float[Tensor, "N H"], num_outputs: int, generator: torch.Generator, num_inducing: int = NUM_INDUCING
) -> DeepGP:
    """The model before it is trained, its inducing points at centres of clusters of rows.

    Args:
        h: [x, μ(x)] for each row.
        num_outputs: P, the columns of μ.
        generator: Draws the seed of the clusters.
        num_inducing: M, of each layer.
    """
    H, P = h.shape[1], num_outputs
    D = min(H - P, WIDEST)
    R = torch.zeros(H, D + P, dtype=h.dtype)
    R[: H - P, :D] = torch.eye(H - P)[:, :D] if H - P == D else _components(h[:, : H - P], D)
    R[H - P :, D:] = torch.eye(P)
    last = torch.zeros(D + P, P, dtype=h.dtype)
    last[D:] = torch.eye(P)
    seed = int(torch.randint(2**31, (), generator=generator))
    layers = []
    for columns, rows in ((R, h), (last, h @ R)):
        kernel = ArcCosine(rows.shape[1])
        kernel.variance = VARIANCE
        points = InducingPoints(centres(rows, min(num_inducing, len(rows)), seed))
        layers.append(GPLayer(kernel, points, columns.shape[1], Columns(columns)))
    return DeepGP(layers, ContaminatedGaussianLikelihood(input_dim=D + P)).to(h.dtype)


def fit_around(
    h: Float[Tensor, "N H"],
    y: Float[Tensor, "N P"],
    held_out: tuple[Tensor, Tensor],
    num_steps: int,
    callback: Callable[[Any], bool | None],
    generator: torch.Generator,
    progress: bool,
) -> DeepGP:
    """Builds and trains it in single precision, on the predictive objective.

    Args:
        h: [x, μ(x)] for each row, μ from a network that has not seen the row.
        y: Targets.
        held_out: More rows, which say how wide predictions are to be.
        num_steps: Of training.
        callback: Ends it early if it returns True after a step.
        generator: Source of randomness.
        progress: Whether to show a progress bar.
    """
    model = deep_gp_around(h.float(), y.shape[1], generator)
    recipe = Recipe(network_steps=0, num_steps=num_steps, patience=num_steps)
    others = (held_out[0].float(), held_out[1].float())
    fit(
        model,
        h.float(),
        y.float(),
        recipe,
        held_out=others,
        callback=callback,
        generator=generator,
        progress=progress,
    )
    return model.double()


def _components(X: Float[Tensor, "N D"], number: int) -> Float[Tensor, "D K"]:
    """Directions of the largest variance."""
    _, _, V = torch.linalg.svd(X - X.mean(0), full_matrices=False)
    found = torch.zeros(X.shape[1], number, dtype=X.dtype)
    found[:, : min(number, len(V))] = V[:number].T
    return found
