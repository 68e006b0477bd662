"""GELU, σ(t) = t Φ(β t), Φ the standard normal distribution function."""

import mpmath
import torch
from torch import Tensor

from actgp.activations.sharp import SharpActivation
from actgp.persistence import savable


@savable
class GELU(SharpActivation):
    """σ(t) = t Φ(β t), Φ the standard normal distribution function.

    The exact GELU, not its tanh approximation.
    """

    @staticmethod
    def unit(x: Tensor) -> Tensor:
        return torch.nn.functional.gelu(x)

    @staticmethod
    def exact_unit(x: mpmath.mpf) -> mpmath.mpf:
        return x * mpmath.ncdf(x)
