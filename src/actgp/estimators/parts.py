"""The parts of an estimator in words and tensors, for files, and built again from them: every entry is checked."""

import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from actgp.activations import Activation
from actgp.blueprints import Source
from actgp.blueprints.activations import build_activation, describe_activation
from actgp.training import Recipe

Part = tuple[dict[str, Any], dict[str, Tensor]]

NUMBERS = ("num_layers", "num_inducing", "num_samples")
LABELS = re.compile(r"[<>|=]?([biuf]\d{1,2}|U\d{1,9})")  # dtypes that hold values only
LABEL_TYPES: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "U": str}


def describe_parameters(parameters: Mapping[str, Any]) -> Part:
    """The constructor's parameters."""
    activation, recipe, seed = (parameters[name] for name in ("activation", "recipe", "random_state"))
    if isinstance(seed, np.random.RandomState):
        raise TypeError(
            "to be saved, random_state must be an integer or None, got a RandomState; "
            "call set_params(random_state=0) first"
        )
    document = {
        **{name: int(parameters[name]) for name in NUMBERS},
        "activation": activation,
        "kernel": str(parameters["kernel"]),
        "recipe": None if recipe is None else asdict(recipe),
        "random_state": None if seed is None else int(seed),
        "device": None if parameters["device"] is None else str(parameters["device"]),
        "progress": bool(parameters["progress"]),
    }
    if not isinstance(activation, Activation):
        return document, {}
    tensors = {f"activation.{name}": tensor for name, tensor in activation.state_dict().items()}
    return document | {"activation": describe_activation(activation, "activation")}, tensors


def build_parameters(source: Source) -> dict[str, Any]:
    """The keyword arguments of a constructor."""
    parameters: dict[str, Any] = {name: _at_least_one(source, name) for name in NUMBERS}
    for name, kind in (("random_state", int), ("device", str)):
        parameters[name] = None if source.entries.get(name) is None else source.get(name, kind)
    parameters["kernel"] = source.choose("kernel", {name: name for name in ("arccosine", "matched")})
    parameters["progress"] = source.get("progress", bool)
    parameters["recipe"] = None if source.entries.get("recipe") is None else build_recipe(source, "recipe")
    activation = source.entries.get("activation")
    if isinstance(activation, dict):
        part = source.part("activation", "activation")
        built = build_activation(part)
        for name, tensor in built.state_dict(keep_vars=True).items():
            tensor.data = part.tensor(name, *tensor.shape).clone()
        parameters["activation"] = built
    else:
        parameters["activation"] = None if activation is None else source.get("activation", str)
    return parameters


def build_recipe(source: Source, key: str) -> Recipe:
    """The recipe under a key."""
    entries = source.get(key, dict)
    names = {field.name for field in fields(Recipe)}
    if entries.keys() != names:
        source.refuse(f"{key} with the entries {sorted(names)}", str(sorted(entries))[:80])
    try:
        return Recipe(**entries)
    except (TypeError, ValueError) as error:
        source.refuse(f"{key} that can be followed", f"one that cannot ({error})")


def describe_scaler(scaler: StandardScaler, name: str) -> Part:
    """Means, variances and scales, and of how many rows."""
    tensors = {f"{name}.{own}": torch.from_numpy(getattr(scaler, f"{own}_")) for own in ("mean", "var", "scale")}
    return {name: {"rows": int(scaler.n_samples_seen_)}}, tensors


def build_scaler(source: Source, name: str, num_columns: int) -> StandardScaler:
    """The scaler under a name, for a number of columns."""
    part = source.part(name, name)
    scaler = StandardScaler()
    scaler.n_samples_seen_ = np.int64(_at_least_one(part, "rows"))
    scaler.n_features_in_ = num_columns
    for own in ("mean", "var", "scale"):
        tensor = part.tensor(own, num_columns)
        if tensor.dtype != torch.float64 or not torch.isfinite(tensor).all() or (own == "scale" and tensor.min() <= 0):
            part.refuse(f"finite numbers in double precision as {own}, and scales above zero", "others")
        setattr(scaler, f"{own}_", tensor.numpy().copy())
    return scaler


def describe_labels(labels: NDArray[Any]) -> dict[str, Any]:
    """Labels and their dtype."""
    values = labels.tolist()
    words = labels.dtype == object and all(isinstance(label, str) for label in values)
    if not words and not LABELS.fullmatch(labels.dtype.str):
        raise TypeError(
            f"to be saved, labels must be numbers or strings, got the dtype {labels.dtype}; fit with y as strings"
        )
    return {"dtype": "object" if words else labels.dtype.str, "values": values}


def build_labels(source: Source) -> NDArray[Any]:
    """Two or more labels, sorted and different, as they were."""
    dtype, values = source.get("dtype", str), source.get("values", list)
    match = LABELS.fullmatch(dtype)
    if dtype != "object" and not match:
        source.refuse("a dtype of numbers or strings", repr(dtype)[:80])
    kind = LABEL_TYPES["U" if match is None else match[1][0]]
    if not all(type(value) is kind for value in values):
        source.refuse(f"values of type {kind.__name__}", repr(values)[:80])
    try:
        labels = np.array(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        source.refuse(f"values that fit into {dtype}", f"others ({error})"[:80])
    if len(values) < 2 or labels.tolist() != values or not np.array_equal(np.unique(labels), labels):
        source.refuse("two or more different values, sorted", repr(values)[:80])
    return labels


def _at_least_one(source: Source, name: str) -> int:
    number = source.get(name, int)
    if number < 1:
        source.refuse(f"{name} of at least 1", str(number)[:80])
    return number
