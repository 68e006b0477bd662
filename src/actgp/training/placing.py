"""Where inducing points begin: at the centres of clusters of what their layer is given by the trained network.

Points beside activations take no part in the network while their means are zero, and moving them leaves it as it is.
"""

import importlib
import warnings

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.features import DecoupledFeatures
from actgp.layers import GPLayer
from actgp.models import DeepGP
from actgp.training.data import Batches

MOST_ROWS = 10_000
APART = 1e-3  # of the spread of the rows: what keeps centres of repeated rows from falling together


@torch.no_grad()
def place_points(model: DeepGP, batches: Batches, seed: int) -> None:
    """Places the points of every layer that has points beside activations, unless these have been trained already."""
    layers = [layer for layer in model.gp_layers if isinstance(layer.features, DecoupledFeatures)]
    if not layers:
        return
    stride = -(-batches.num_data // MOST_ROWS)
    parts = [model.hidden_means(X[::stride]) for X, _ in batches.all()]
    for layer, *given in zip(model.gp_layers, *parts, strict=True):
        if isinstance(features := layer.features, DecoupledFeatures):
            locations = features.points.locations
            if locations.requires_grad and not _trained(layer, features):
                locations.copy_(centres(torch.cat(given), len(locations), seed))


def _trained(layer: GPLayer, features: DecoupledFeatures) -> bool:
    """Whether points have been in use: their means are no longer zero or, where these have to be, their S is not I."""
    first = features.blocks[0]
    parameters = layer.q.mean[first:] if features.mean_from == "both" else layer.q.raw_scale_tril[:, first:, first:]
    return bool(parameters.any())


def centres(X: Float[Tensor, "N D"], number: int, seed: int) -> Float[Tensor, "K D"]:
    """Centres of clusters of rows, no two the same."""
    rows = X.detach().cpu().double()
    g = torch.Generator().manual_seed(seed)
    if len(rows) > number:
        # only now: importing scikit-learn takes as long as importing torch
        cluster, exceptions = (importlib.import_module(f"sklearn.{name}") for name in ("cluster", "exceptions"))
        clusters = cluster.MiniBatchKMeans(number, random_state=seed % 2**32, n_init=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", exceptions.ConvergenceWarning)  # rows that repeat give fewer clusters
            chosen = torch.from_numpy(clusters.fit(rows.numpy()).cluster_centers_)
    else:
        chosen = rows[torch.arange(number) % len(rows)]
    spread = rows.std(0, correction=0).clamp_min(APART)
    return (chosen + APART * spread * torch.randn(chosen.shape, generator=g, dtype=torch.float64)).to(X)
