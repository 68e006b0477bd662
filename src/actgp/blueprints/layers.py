"""GP layers, described and built."""

from math import inf
from typing import Any, get_args

from actgp.blueprints.features import build_features, describe_features
from actgp.blueprints.kernels import build_kernel, describe_kernel
from actgp.blueprints.source import Source, refuse_to_save
from actgp.layers import GPLayer, PriorMean, WhitenedGaussian

PRIOR_MEANS: dict[str, PriorMean] = {name: name for name in get_args(PriorMean)}


def describe_layer(layer: GPLayer, place: str) -> dict[str, Any]:
    """Kernel, features, prior mean and horizon; the number of outputs is seen from q."""
    for part, name in ((layer, "GPLayer"), (layer.q, "WhitenedGaussian")):
        if type(part) not in (GPLayer, WhitenedGaussian):
            refuse_to_save("a layer and its q", [name], part, place)
    return {
        "kernel": describe_kernel(layer.kernel, f"{place}.kernel"),
        "features": describe_features(layer.features, f"{place}.features"),
        "prior_mean": layer.prior_mean,
        "horizon": layer.horizon,
    }


def build_layer(source: Source) -> GPLayer:
    """The layer of a description, its parameters yet to be set."""
    prior_mean = source.choose("prior_mean", PRIOR_MEANS)
    features = build_features(source.part("features", "features"))
    kernel = build_kernel(source.part("kernel", "kernel"))
    M = features.num_inducing
    P = source.tensor("q.raw_mean", M, None).shape[1]
    source.tensor("q.raw_scale_tril", P, M, M)
    horizon = None if source.entries.get("horizon") is None else source.get("horizon", float)
    if horizon is not None and not 0.0 < horizon < inf:
        source.refuse("a positive and finite horizon", str(horizon))
    return GPLayer(kernel, features, P, prior_mean, horizon=horizon)
