"""actgp: activated Gaussian processes. One model that is a neural network and a Gaussian process."""

from actgp.activations import GELU, Activation, CustomActivation, ReLU, Softplus, Swish, Tanh, activation
from actgp.convert import ConversionReport, LayerConversion, convert
from actgp.features import ActivatedFeatures, InducingFeatures, InducingPoints, SpectralMismatchWarning
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
from actgp.models import GPR, SGPR, SVGP, DeepGP, Diagnosis, Prediction, deep_gp, diagnose
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
from actgp.training import FitResult, fit

__version__ = "0.1.0.dev0"

__all__ = [
    "GELU",
    "GPR",
    "SGPR",
    "SVGP",
    "ActivatedFeatures",
    "Activation",
    "ArcCosine",
    "ConversionReport",
    "CustomActivation",
    "CustomKernel",
    "DeepGP",
    "Diagnosis",
    "FitResult",
    "GPLayer",
    "InducingFeatures",
    "InducingPoints",
    "LayerConversion",
    "MatchedKernel",
    "Prediction",
    "ReLU",
    "Softplus",
    "SpectralKernel",
    "SpectralMismatchWarning",
    "Spectrum",
    "SphericalHarmonics",
    "Swish",
    "Tanh",
    "ZonalKernel",
    "ZonalMatern",
    "ZonalRBF",
    "activation",
    "convert",
    "deep_gp",
    "diagnose",
    "fit",
    "gegenbauer",
    "normalised_gegenbauer",
    "num_harmonics",
    "spectrum",
    "surface_area",
    "zonal_series",
]
