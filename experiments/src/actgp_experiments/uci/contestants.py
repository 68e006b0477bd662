"""The contestants of the grid, by the names that tables use, and our own with one ingredient taken out."""

from collections.abc import Callable, Mapping
from typing import Any

from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import GaussianLikelihood

from actgp.activations import Softplus
from actgp.likelihoods import ContaminatedGaussianLikelihood
from actgp.models import Layers
from actgp_experiments.baselines import (
    ClassicDeepGP,
    DeepEnsemble,
    DropoutNetwork,
    LastLayerLaplace,
    Network,
    NetworkEnsemble,
    OurDeepGP,
    OurTable,
    Predictor,
    PublishedDeepGP,
    Settings,
    ShallowGP,
)

Build = Callable[[Settings, int], Predictor]

PUBLISHED = "ADGP, published"
DEFAULT = "ADGP, default"
OURS = "ADGP, ours"
EXACT = "GPR"

GAUSSIAN = {"likelihood": GaussianLikelihood(noise_constraint=GreaterThan(1e-6))}
SINGLE_LAYER = {"num_layers": 1, "layers": Layers(num_points=0), **GAUSSIAN}

CONTESTANTS: dict[str, Build] = {
    "NN": lambda settings, seed: Network(settings, seed, "training"),
    "NN+Dropout": DropoutNetwork,
    "NN Ensemble": NetworkEnsemble,
    "NN+TS": lambda settings, seed: Network(settings, seed, "held-out"),
    "DGP": ClassicDeepGP,
    PUBLISHED: PublishedDeepGP,
    DEFAULT: OurTable,
    OURS: OurDeepGP,
    "Laplace": LastLayerLaplace,
    "Deep ensemble": DeepEnsemble,
    "SGPR": lambda settings, seed: ShallowGP(settings, seed, sparse=True),
    "Activated SVGP": lambda settings, seed: OurDeepGP(settings, seed, SINGLE_LAYER),
    EXACT: lambda settings, seed: ShallowGP(settings, seed, sparse=False),
}


def _ours(model: Mapping[str, Any] | None = None, recipe: Mapping[str, Any] | None = None) -> Build:
    return lambda settings, seed: OurDeepGP(settings, seed, model, recipe)


ABLATIONS: dict[str, Build] = {
    OURS: OurDeepGP,
    "noise the same everywhere": _ours({"likelihood": ContaminatedGaussianLikelihood()}),
    "plain Gaussian noise": _ours(GAUSSIAN),
    "no inducing points": _ours({"layers": Layers(num_points=0)}),
    "sharpness 3 instead of 1": _ours({"layers": Layers(activation=Softplus(3.0))}),
    "no identity means": _ours({"layers": Layers(prior_mean="zero")}),
    "the bound as objective": _ours(recipe={"objective": "elbo"}),
    "a KL of weight 1": _ours(recipe={"kl_weight": 1.0}),
    "one path a step": _ours(recipe={"num_samples": 1}),
    "no network first": _ours(recipe={"network_steps": 0}),
    "widths as trained": _ours(recipe={"calibrate": False}),
    "held-out rows stay out": _ours(recipe={"use_all_rows": False}),
    "no rows held out": _ours(recipe={"validation": 0.0}),
}
ABLATED = ("energy", "concrete", "kin8nm", "power")  # the data sets of that table


def builder(model: str) -> Build:
    """How a contestant of either table is made."""
    return CONTESTANTS[model] if model in CONTESTANTS else ABLATIONS[model]


def takes(model: str, num_rows: int, settings: Settings) -> bool:
    """Whether a contestant can be trained on so many rows: an exact GP cannot, on many."""
    return model != EXACT or num_rows <= settings.largest_exact
