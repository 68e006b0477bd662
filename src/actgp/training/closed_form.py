"""Converted networks with Gaussian noise or labels: features are collected in memory, and the GP is fitted at once.

Held-out rows are all used, for labels up to 2,000 of them. Without them all rows of X are, for Gaussian noise each left
out in turn. Of a tensor X with more than 5,000 labels so many are drawn, and no others go through the network: g has a
few hundred inducing points, and what it adds to a trained network is little. An interrupt leaves the model as it was.
"""

import time
import warnings
from contextlib import nullcontext
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from actgp.likelihoods import adapter_of
from actgp.models import DeepGP
from actgp.on_disk import Table
from actgp.several import Rows
from actgp.training import ranks
from actgp.training.blocks import BlockBatches
from actgp.training.calibrate import bound_noise_by_rounding
from actgp.training.data import ROWS, Batches, TensorBatches, backbone_features, checked
from actgp.training.loader import Batch, LoaderBatches
from actgp.training.logits import fit_logits
from actgp.training.progress import progress_bar
from actgp.training.recipe import ErrorSource, FitResult, NetworkErrors, Recipe, Stopped, has_closed_form
from actgp.training.residual import NUM_STEPS, fit_residual
from actgp.training.stages import undone_if_broken_off

MOST_LABELS = 5_000
SEED = 0


def fit_in_closed_form(
    model: DeepGP,
    X: Tensor | DataLoader[Any] | Table | None,
    y: Tensor | None,
    held_out: Batch | None,
    device: torch.device,
    progress: bool,
    num_data: int | None = None,
) -> FitResult:
    """Fits q(u), the kernel's variance and the noise of a model that has a closed form."""
    start = time.perf_counter()
    for rows in (None if isinstance(X, DataLoader | Table) else (X, y), held_out):  # before anything is moved
        if rows is not None:
            checked(model, *rows)
    model.to(device).eval()
    ranks.copy_first(model.state_dict().values())
    train = _layer_inputs(model, X, y, device, num_data)
    judged = None if held_out is None else _layer_inputs(model, *held_out, device)
    head = DeepGP(model.gp_layers, model.likelihood)  # the same layer
    bar = progress_bar(f"fit {type(model).__name__}", NUM_STEPS) if progress else nullcontext(lambda *_: None)
    with bar as report, undone_if_broken_off(head):
        if not adapter_of(model.likelihood).squared_error:
            objectives = fit_logits(head, train, judged, report)
            ranks.copy_first(head.state_dict().values())
            seconds, score = time.perf_counter() - start, None if judged is None else objectives[-1]
            return FitResult(objectives, "converged", 0, seconds, held_out=score)
        batches = TensorBatches(*train, ROWS, torch.Generator())
        bound_noise_by_rounding(head, batches, judged)
        found = fit_residual(head, train, judged, report)
        ranks.copy_first(head.state_dict().values())  # of several ranks, each has fitted all
    source: ErrorSource = "held-out rows" if judged is not None else "leave-one-out" if found.known else "none"
    errors = NetworkErrors(found.training_error, found.new_error, source)
    if source == "none":
        warnings.warn(str(errors), stacklevel=3)
    seconds, score = time.perf_counter() - start, None if judged is None else found.objectives[-1]
    return FitResult(found.objectives, cast(Stopped, found.stopped), 0, seconds, errors=errors, held_out=score)


def enough_labels(model: DeepGP, X: Rows, y: Tensor | None, recipe: Recipe) -> tuple[Rows, Tensor | None]:
    """At most MOST_LABELS rows, always the same ones, where the closed form of labels is all there is; else all."""
    alone = has_closed_form(model) and recipe.num_steps == 0
    if not alone or adapter_of(model.likelihood).squared_error or y is None or len(X) <= MOST_LABELS:
        return X, y
    checked(model, X, y)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(SEED))[:MOST_LABELS]
    return X[order], y[order]


@torch.no_grad()
def _layer_inputs(
    model: DeepGP,
    X: Tensor | DataLoader[Any] | Table | None,
    y: Tensor | None,
    device: torch.device,
    num_data: int | None = None,
) -> Batch:
    """What the layer is given at each row, and the targets."""
    if isinstance(X, DataLoader | Table):
        if y is not None:
            raise ValueError("a DataLoader gives X and y, got y again; leave it out")
        batches: Batches
        if isinstance(X, DataLoader):
            batches = LoaderBatches(X, model, device, num_data)
        else:
            batches = BlockBatches(X, model, device, ROWS, torch.Generator())
        parts = [(model.enter(x), targets) for x, targets in batches.all()]
        h, values = (ranks.gathered(torch.cat(tensors)) for tensors in zip(*parts, strict=True))
        return h, values
    rows, targets = checked(model, X, y)
    return backbone_features(model, rows), targets.to(device)
