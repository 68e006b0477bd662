"""What a user would take instead, and our models beside them: all fitted and asked in the same way."""

from actgp_experiments.baselines.deep import ClassicDeepGP, OurDeepGP, OurTable, PublishedDeepGP
from actgp_experiments.baselines.dropout import DropoutNetwork
from actgp_experiments.baselines.ensemble import DeepEnsemble, NetworkEnsemble
from actgp_experiments.baselines.last_layer_laplace import LastLayerLaplace
from actgp_experiments.baselines.network import Network
from actgp_experiments.baselines.predictor import Predictor, Settings
from actgp_experiments.baselines.shallow import ShallowGP

__all__ = [
    "ClassicDeepGP",
    "DeepEnsemble",
    "DropoutNetwork",
    "LastLayerLaplace",
    "Network",
    "NetworkEnsemble",
    "OurDeepGP",
    "OurTable",
    "Predictor",
    "PublishedDeepGP",
    "Settings",
    "ShallowGP",
]
