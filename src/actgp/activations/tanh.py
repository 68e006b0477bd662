"""Tanh, σ(t) = tanh(β t) / β."""

import mpmath
import torch
from torch import Tensor

from actgp.activations.sharp import SharpActivation
from actgp.persistence import savable


@savable
class Tanh(SharpActivation):
    """σ(t) = tanh(β t) / β.

    An odd function: its levels are 1, 3, 5, …, of which the arc-cosine kernel has only the first, and half of a Matérn
    kernel's variance lies on the others. Use it with `MatchedKernel`.
    """

    @staticmethod
    def unit(x: Tensor) -> Tensor:
        return torch.tanh(x)

    @staticmethod
    def exact_unit(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.tanh(x)
