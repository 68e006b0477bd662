"""actgp: activated Gaussian processes. One model that is a neural network and a Gaussian process."""

import importlib
import typing

from actgp.activations import GELU, Activation, CustomActivation, ReLU, Softplus, Swish, Tanh, activation
from actgp.convert import ConversionReport, Softening, convert, soften
from actgp.distil import Exported, FidelityReport, FidelityWarning, Student, distill, export
from actgp.features import (
    ActivatedFeatures,
    DecoupledFeatures,
    InducingFeatures,
    InducingPoints,
    SpectralMismatchWarning,
)
from actgp.kernels import (
    ArcCosine,
    CustomKernel,
    MatchedKernel,
    SpectralKernel,
    ZonalKernel,
    ZonalMatern,
    ZonalRBF,
)
from actgp.layers import GPLayer
from actgp.likelihoods import BernoulliLogitLikelihood, ContaminatedGaussianLikelihood
from actgp.loading import load
from actgp.models import (
    GPR,
    SGPR,
    SVGP,
    DeepGP,
    Diagnosis,
    Layers,
    MixedPrediction,
    Mixture,
    Prediction,
    deep_gp,
    diagnose,
    forget_beyond,
    hybrid,
    predict_in_parts,
)
from actgp.sphere import (
    Spectrum,
    SphericalHarmonics,
    gegenbauer,
    normalised_gegenbauer,
    num_harmonics,
    spectrum,
    surface_area,
    zonal_series,
)
from actgp.tables import TableFit, fit_table
from actgp.training import FitResult, Loss, Recipe, Step, fit, log_prior, start_network, start_posterior
from actgp.uncertain import UncertaintyReport, uncertain
from actgp.version import __version__ as __version__
from actgp.weights import LayerConversion, WeightsReport, convert_weights

if typing.TYPE_CHECKING:
    from actgp.estimators import DGPClassifier, DGPRegressor

__all__ = [
    "GELU",
    "GPR",
    "SGPR",
    "SVGP",
    "ActivatedFeatures",
    "Activation",
    "ArcCosine",
    "BernoulliLogitLikelihood",
    "ContaminatedGaussianLikelihood",
    "ConversionReport",
    "CustomActivation",
    "CustomKernel",
    "DGPClassifier",
    "DGPRegressor",
    "DecoupledFeatures",
    "DeepGP",
    "Diagnosis",
    "Exported",
    "FidelityReport",
    "FidelityWarning",
    "FitResult",
    "GPLayer",
    "InducingFeatures",
    "InducingPoints",
    "LayerConversion",
    "Layers",
    "Loss",
    "MatchedKernel",
    "MixedPrediction",
    "Mixture",
    "Prediction",
    "ReLU",
    "Recipe",
    "Softening",
    "Softplus",
    "SpectralKernel",
    "SpectralMismatchWarning",
    "Spectrum",
    "SphericalHarmonics",
    "Step",
    "Student",
    "Swish",
    "TableFit",
    "Tanh",
    "UncertaintyReport",
    "WeightsReport",
    "ZonalKernel",
    "ZonalMatern",
    "ZonalRBF",
    "activation",
    "convert",
    "convert_weights",
    "deep_gp",
    "diagnose",
    "distill",
    "export",
    "fit",
    "fit_table",
    "forget_beyond",
    "gegenbauer",
    "hybrid",
    "load",
    "log_prior",
    "normalised_gegenbauer",
    "num_harmonics",
    "predict_in_parts",
    "soften",
    "spectrum",
    "start_network",
    "start_posterior",
    "surface_area",
    "uncertain",
    "zonal_series",
]


def __getattr__(name: str) -> typing.Any:
    """What is imported when it is first used: scikit-learn takes as long as torch, and BoTorch may not be installed."""
    if name in ("DGPClassifier", "DGPRegressor"):
        return getattr(importlib.import_module("actgp.estimators"), name)
    if name == "botorch":
        return importlib.import_module("actgp.botorch")
    raise AttributeError(f"module 'actgp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
