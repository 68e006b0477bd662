"""A trained network as the prior mean of a GP: the same predictions, and an uncertainty beside them."""

from actgp.convert.convert import ConversionReport, convert
from actgp.convert.forgetting import Softening
from actgp.convert.soften import soften

__all__ = ["ConversionReport", "Softening", "convert", "soften"]
