"""Models built again from their descriptions, and from files."""

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from actgp import files
from actgp.blueprints import (
    KIND,
    DescriptionError,
    Source,
    build_features,
    build_kernel,
    build_layer,
    build_likelihood,
    check_backbone,
    give_state,
)
from actgp.features import SpectralMismatchWarning
from actgp.models.deep import DeepGP
from actgp.models.gpr import GPR
from actgp.models.hybrid import backbone_as_saved
from actgp.models.sgpr import SGPR
from actgp.models.svgp import SVGP

Model = DeepGP | SVGP | SGPR | GPR


def load(path: str | os.PathLike[str], *, backbone: nn.Module | None = None) -> Model:
    """Reads a model that its `save` has written, in evaluation mode; what it computes is the same to the last bit.

    Args:
        path: The file.
        backbone: For a model with a backbone, a module of the same structure, or the one that was given to `hybrid`,
            with any weights; it is given the saved tensors.

    Example:
        >>> import actgp, tempfile
        >>> model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=8)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     model.save(f"{directory}/model.actgp")
        ...     model = actgp.load(f"{directory}/model.actgp")
    """
    contents = files.read(path, KIND)
    return rebuild(contents.document, contents.tensors, backbone=backbone)


def rebuild(document: dict[str, Any], tensors: Mapping[str, Tensor], *, backbone: nn.Module | None = None) -> Model:
    """Builds a model from what its `describe` has returned; see `load`."""
    source = Source(document, tensors)
    backbone = backbone_as_saved(source, backbone)
    check_backbone(source, backbone)
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore", SpectralMismatchWarning)  # whoever built the model has seen it
            model = source.choose("class", _BUILDERS)(source, backbone)
        give_state(model, source)
    except DescriptionError:
        raise
    except (ValueError, TypeError, RuntimeError, IndexError, OverflowError) as error:
        raise ValueError(
            f"the description of a model must be one that can be built, got one that cannot ({error}); "
            "write it with the model's save"
        ) from error
    return model.eval()


def _deep(source: Source, backbone: nn.Module | None) -> DeepGP:
    layers = [build_layer(part) for part in source.parts("layers", "layers")]
    return DeepGP(layers, build_likelihood(source.part("likelihood", "likelihood")), backbone)


def _svgp(source: Source, _: nn.Module | None) -> SVGP:
    layers = [build_layer(part) for part in source.parts("layers", "layers")]
    if len(layers) != 1:
        source.refuse("one layer", str(len(layers)))
    (layer,) = layers
    likelihood = build_likelihood(source.part("likelihood", "likelihood"))
    return SVGP(layer.kernel, layer.features, likelihood, layer.num_outputs)


def _sgpr(source: Source, _: nn.Module | None) -> SGPR:
    X, y = source.tensor("data.X", None, None), source.tensor("data.y", None, None)
    features = build_features(source.part("features", "features"))
    kernel = build_kernel(source.part("kernel", "kernel"))
    return SGPR(X, y, kernel, features, build_likelihood(source.part("likelihood", "likelihood")))


def _gpr(source: Source, _: nn.Module | None) -> GPR:
    X, y = source.tensor("data.X", None, None), source.tensor("data.y", None, None)
    kernel = build_kernel(source.part("kernel", "kernel"))
    model = GPR(X, y, kernel, build_likelihood(source.part("likelihood", "likelihood")))
    model.set_train_data(model.train_inputs[0].to(X), model.train_targets.to(y), strict=False)  # as they were
    return model


_BUILDERS: dict[str, Callable[[Source, nn.Module | None], Model]] = {
    "DeepGP": _deep,
    "SVGP": _svgp,
    "SGPR": _sgpr,
    "GPR": _gpr,
}
