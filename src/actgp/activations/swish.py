"""Swish, σ(t) = t / (1 + exp(−β t))."""

import mpmath
import torch
from torch import Tensor

from actgp.activations.sharp import SharpActivation
from actgp.persistence import savable


@savable
class Swish(SharpActivation):
    """σ(t) = t / (1 + exp(−β t)).

    Also known as SiLU.
    """

    @staticmethod
    def unit(x: Tensor) -> Tensor:
        return torch.nn.functional.silu(x)

    @staticmethod
    def exact_unit(x: mpmath.mpf) -> mpmath.mpf:
        return x / (1 + mpmath.exp(-x))
