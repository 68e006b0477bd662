"""Whatever was saved, read again: models and estimators."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gpytorch.likelihoods import BernoulliLikelihood, Likelihood, SoftmaxLikelihood
from torch import Tensor, nn

from actgp import files
from actgp.blueprints import KIND as MODEL
from actgp.blueprints import Source
from actgp.convert.front import front_as_saved
from actgp.estimators.base import KIND, PREFIX, DGPEstimator
from actgp.estimators.classifier import DGPClassifier
from actgp.estimators.parts import build_labels, build_parameters, build_recipe, build_scaler
from actgp.estimators.regressor import DGPRegressor
from actgp.likelihoods import ContaminatedGaussianLikelihood
from actgp.models import DeepGP, rebuild
from actgp.models.loading import Model


def load(path: str | os.PathLike[str], *, backbone: nn.Module | None = None) -> Model | DGPRegressor | DGPClassifier:
    """Reads a model or an estimator that its `save` has written; what it predicts is the same to the last bit.

    Args:
        path: The file.
        backbone: For a model with a backbone, a module of the same structure, or the one that was given to `hybrid`,
            with any weights; it is given the saved tensors. Or the network that was given to `convert`: its front is
            copied, and given the saved tensors.

    Example:
        >>> import actgp, tempfile
        >>> model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=8)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     model.save(f"{directory}/model.actgp")
        ...     model = actgp.load(f"{directory}/model.actgp")
    """
    contents = files.read(path)
    if contents.kind == MODEL:
        backbone = front_as_saved(Source(contents.document, contents.tensors), backbone)
        return rebuild(contents.document, contents.tensors, backbone=backbone)
    if contents.kind != KIND:
        raise ValueError(
            f"{os.fspath(path)!r} must hold a file of kind {MODEL!r} or {KIND!r}, got {contents.kind!r}; "
            "choose another file, or read this one with what wrote it"
        )
    if backbone is not None:
        raise ValueError(f"an estimator must be loaded without a backbone, got {type(backbone).__name__}; leave it out")
    return rebuild_estimator(contents.document, contents.tensors)


def rebuild_estimator(document: dict[str, Any], tensors: Mapping[str, Tensor]) -> DGPRegressor | DGPClassifier:
    """Builds an estimator from what its `save` has written."""
    source = Source(document, tensors, PREFIX)
    return source.choose("class", _BUILDERS)(source)


def _regressor(source: Source) -> DGPRegressor:
    estimator = DGPRegressor(**build_parameters(source.part("parameters", "parameters")))
    model = _trained(source, estimator, ContaminatedGaussianLikelihood)
    estimator.target_scaler_ = build_scaler(source, "targets", model.num_outputs)
    estimator._single_target = source.get("single_target", bool)
    if estimator._single_target and model.num_outputs > 1:
        source.refuse("a model of one output for a single target", str(model.num_outputs))
    return estimator


def _classifier(source: Source) -> DGPClassifier:
    estimator = DGPClassifier(**build_parameters(source.part("parameters", "parameters")))
    estimator.classes_ = build_labels(source.part("classes", "classes"))
    C = len(estimator.classes_)
    model = _trained(source, estimator, BernoulliLikelihood if C == 2 else SoftmaxLikelihood)
    if model.num_outputs != (1 if C == 2 else C):
        source.refuse(f"a model of the outputs that {C} classes need", str(model.num_outputs))
    return estimator


def _trained(source: Source, estimator: DGPEstimator, likelihood: type[Likelihood]) -> DeepGP:
    """Gives an estimator its model, the scaler of its inputs and the names of its columns."""
    start = f"{PREFIX}model."
    tensors = {name.removeprefix(start): t for name, t in source.tensors.items() if name.startswith(start)}
    model = rebuild(source.get("model", dict), tensors)
    if type(model) is not DeepGP or type(model.likelihood) is not likelihood:
        found = f"a {type(model).__name__} with {type(model.likelihood).__name__}"
        source.refuse(f"a DeepGP with {likelihood.__name__} as its model", found)
    D = model.gp_layers[0].input_dim
    if any(values.dtype != torch.float64 for values in model.parameters()):
        source.refuse("a model in double precision", "another")
    columns = source.entries.get("columns")
    if columns is not None:
        if len(source.get("columns", list)) != D or not all(type(name) is str for name in columns):
            source.refuse(f"{D} names of columns, or none", repr(columns)[:80])
        estimator.feature_names_in_ = np.array(columns, dtype=object)
    estimator.n_features_in_ = D
    estimator.model_ = model
    estimator.recipe_ = build_recipe(source, "trained")
    estimator.input_scaler_ = build_scaler(source, "inputs", D)
    return model


_BUILDERS: dict[str, Callable[[Source], DGPRegressor | DGPClassifier]] = {
    "DGPRegressor": _regressor,
    "DGPClassifier": _classifier,
}
