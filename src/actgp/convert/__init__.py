"""From a trained network to a deep GP whose mean is that network, with a report of what became of what."""

from actgp.convert.convert import convert
from actgp.convert.report import ConversionReport, LayerConversion

__all__ = ["ConversionReport", "LayerConversion", "convert"]
