"""A trained network with an uncertainty: as the prior mean of a GP, or with its weights made those of a deep GP."""

from actgp.convert.convert import ConversionReport, convert
from actgp.convert.forgetting import Softening
from actgp.convert.report import LayerConversion, WeightsReport
from actgp.convert.soften import soften
from actgp.convert.weights import convert_weights

__all__ = ["ConversionReport", "LayerConversion", "Softening", "WeightsReport", "convert", "convert_weights", "soften"]
