"""Models: exact, collapsed, variational and deep; what they predict, and what they lose."""

from actgp.models.build import Layers, deep_gp
from actgp.models.deep import DeepGP
from actgp.models.diagnosis import Diagnosis, LayerDiagnosis, diagnose
from actgp.models.edge import forget_beyond
from actgp.models.gpr import GPR
from actgp.models.hybrid import FeatureScale, hybrid
from actgp.models.mixture import MixedPrediction, Mixture
from actgp.models.networks import Networks
from actgp.models.parts import predict_in_parts
from actgp.models.prediction import Prediction
from actgp.models.sgpr import SGPR, Posterior
from actgp.models.shares import LayerShares, VarianceShares
from actgp.models.svgp import SVGP

__all__ = [
    "GPR",
    "SGPR",
    "SVGP",
    "DeepGP",
    "Diagnosis",
    "FeatureScale",
    "LayerDiagnosis",
    "LayerShares",
    "Layers",
    "MixedPrediction",
    "Mixture",
    "Networks",
    "Posterior",
    "Prediction",
    "VarianceShares",
    "deep_gp",
    "diagnose",
    "forget_beyond",
    "hybrid",
    "predict_in_parts",
]
