"""Softplus, σ(t) = log(1 + exp(β t)) / β."""

import mpmath
import torch
from torch import Tensor

from actgp.activations.sharp import SharpActivation
from actgp.persistence import savable


@savable
class Softplus(SharpActivation):
    """σ(t) = log(1 + exp(β t)) / β.

    The paper's activation, up to the factor 1/β, which the output weights absorb; the paper takes β = 3. The
    form is that of `torch.nn.Softplus`, and tends to ReLU as β grows.
    """

    @staticmethod
    def unit(x: Tensor) -> Tensor:
        return torch.nn.functional.softplus(x)

    @staticmethod
    def exact_unit(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.log1p(mpmath.exp(x))
