"""What a user would take instead, and our models beside them: all fitted and asked in the same way."""

from actgp.baselines.deep import ClassicDeepGP, OurDeepGP, PublishedDeepGP
from actgp.baselines.dropout import DropoutNetwork
from actgp.baselines.ensemble import DeepEnsemble, NetworkEnsemble
from actgp.baselines.last_layer_laplace import LastLayerLaplace
from actgp.baselines.network import Network
from actgp.baselines.predictor import Predictor, Settings
from actgp.baselines.shallow import ShallowGP

__all__ = [
    "ClassicDeepGP",
    "DeepEnsemble",
    "DropoutNetwork",
    "LastLayerLaplace",
    "Network",
    "NetworkEnsemble",
    "OurDeepGP",
    "Predictor",
    "PublishedDeepGP",
    "Settings",
    "ShallowGP",
]
