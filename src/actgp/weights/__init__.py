"""The paper's own construction: the weights of a trained network made those of a deep GP with the same mean."""

from actgp.weights.convert import convert_weights
from actgp.weights.report import LayerConversion, WeightsReport

__all__ = ["LayerConversion", "WeightsReport", "convert_weights"]
