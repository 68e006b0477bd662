"""The contestants of the grid, by the names that tables use."""

from collections.abc import Callable

from actgp.baselines import (
    ClassicDeepGP,
    DeepEnsemble,
    DropoutNetwork,
    LastLayerLaplace,
    Network,
    NetworkEnsemble,
    OurDeepGP,
    Predictor,
    PublishedDeepGP,
    Settings,
    ShallowGP,
)

Build = Callable[[Settings, int], Predictor]

PUBLISHED = "ADGP, published"
OURS = "ADGP, ours"
EXACT = "GPR"

CONTESTANTS: dict[str, Build] = {
    "NN": lambda settings, seed: Network(settings, seed, "training"),
    "NN+Dropout": DropoutNetwork,
    "NN Ensemble": NetworkEnsemble,
    "NN+TS": lambda settings, seed: Network(settings, seed, "held-out"),
    "DGP": ClassicDeepGP,
    PUBLISHED: PublishedDeepGP,
    OURS: lambda settings, seed: OurDeepGP(settings, seed, settings.num_layers),
    "Laplace": LastLayerLaplace,
    "Deep ensemble": DeepEnsemble,
    "SGPR": lambda settings, seed: ShallowGP(settings, seed, sparse=True),
    "Activated SVGP": lambda settings, seed: OurDeepGP(settings, seed, num_layers=1, num_points=0),
    EXACT: lambda settings, seed: ShallowGP(settings, seed, sparse=False),
}


def takes(model: str, num_rows: int, settings: Settings) -> bool:
    """Whether a contestant can be trained on so many rows: an exact GP cannot, on many."""
    return model != EXACT or num_rows <= settings.largest_exact
