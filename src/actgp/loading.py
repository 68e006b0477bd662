"""Whatever was saved, read again: models and estimators, and backbones made again what they were."""

import importlib
import os
from typing import TYPE_CHECKING

import torch
from torch import nn

from actgp.convert.anchor import anchor_from_file
from actgp.distil import SavedStudent, Student
from actgp.models import GPR, SGPR, DeepGP, FeatureScale, Mixture
from actgp.persistence import SavedBackbone, archive, parts_of, rebuild
from actgp.weights.split import split

if TYPE_CHECKING:
    from actgp.estimators import DGPClassifier, DGPRegressor
    from actgp.tabular import TableModel

MODEL, ESTIMATOR, STUDENT, TABLE = "model", "estimator", "student", "table"
BACKBONE = "backbone."  # before the names of its tensors


def load(
    path: str | os.PathLike[str], *, backbone: nn.Module | None = None
) -> "DeepGP | Mixture | SGPR | GPR | Student | DGPRegressor | DGPClassifier | TableModel":
    """Reads what its `save` has written, of whatever kind it is; it predicts the same to the last bit.

    Args:
        path: The file.
        backbone: For a model with a backbone, a module of the same structure, or the one that was given to `hybrid`,
            with any weights; it is given the saved tensors. Or the network that was given to `convert_weights`: its
            front is copied, and given the saved tensors. Or the network that was given to `convert`, likewise, with any
            weights.

    Returns:
        What was saved: a model, a student or an estimator.

    Example:
        >>> import actgp, tempfile
        >>> model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=8)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     model.save(f"{directory}/model.actgp")
        ...     model = actgp.load(f"{directory}/model.actgp")
    """
    kind, document, tensors = archive.read(path)
    if kind not in (MODEL, ESTIMATOR, STUDENT, TABLE):
        raise ValueError(
            f"{os.fspath(path)!r} must hold a file of kind {MODEL!r} or {ESTIMATOR!r}, got {kind!r}; "
            "choose another file, or read this one with what wrote it"
        )
    if kind in (ESTIMATOR, TABLE) and backbone is not None:
        raise ValueError(f"an estimator must be loaded without a backbone, got {type(backbone).__name__}; leave it out")
    saved = SavedBackbone.of(document, tensors)
    backbone = as_saved(saved, backbone)
    saved.check(backbone)
    if kind == MODEL:
        return rebuild(document, tensors, backbone, DeepGP | Mixture | SGPR | GPR)
    if kind == STUDENT:
        student: Student = rebuild(document, tensors, None, SavedStudent).student()
        return student
    if kind == TABLE:
        table: TableModel = rebuild(
            document, tensors, None, importlib.import_module("actgp.tabular.model").SavedTable
        ).table()
        return table
    estimators = importlib.import_module("actgp.estimators")  # only now: it imports scikit-learn
    return rebuild(document, tensors, None, estimators.Fitted).estimator()


def as_saved(saved: SavedBackbone, given: nn.Module | None) -> nn.Module | None:
    """The saved backbone, with other tensors, from what was given to `hybrid`, `convert` or `convert_weights`.

    Anything else stays as it is.
    """
    parts = saved.parts
    if not isinstance(given, nn.Module) or saved.resembles(given):
        return given
    anchor = anchor_from_file(given, {name.removeprefix(BACKBONE): values for name, values in saved.tensors.items()})
    if anchor is not None or parts is None:
        return given if anchor is None else anchor
    front = _front(given)
    if front is not None and parts_of(front) == parts:
        return front
    behind = _scaling(saved) if len(parts) == 2 else None
    return given if behind is None else nn.Sequential(given, behind)


def _front(network: nn.Module) -> nn.Module | None:
    """What `convert_weights` would cut off a network."""
    try:
        return split(network).backbone
    except (TypeError, ValueError):  # no network that can be converted
        return None


def _scaling(saved: SavedBackbone) -> nn.Module | None:
    """What `hybrid` has put behind a module, its tensors yet to be set."""
    part, tensors = (saved.parts or [""])[-1], saved.tensors
    mean, weight = tensors.get("backbone.1.mean"), tensors.get("backbone.1.weight")
    if part == "actgp.FeatureScale" and mean is not None and mean.ndim == 1:
        return FeatureScale(torch.zeros(len(mean)), torch.ones(()))
    if part == "torch.Linear" and weight is not None and weight.ndim == 2:
        K, D = weight.shape
        return nn.utils.skip_init(nn.Linear, D, K, bias="backbone.1.bias" in tensors)
    return None
