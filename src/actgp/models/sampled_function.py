"""A function drawn from the posterior of a deep GP."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from actgp import checks
from actgp.layers import LayerFunction


@dataclass(frozen=True)
class SampledFunction:
    """[N, D] to [N], or to [N, P] for several outputs; the same whenever it is called.

    Attributes:
        enter: What inputs go through first: checks, and a backbone.
        layers: A function drawn from each layer.
    """

    enter: Callable[[Tensor], Tensor]
    layers: tuple[LayerFunction, ...]

    def __call__(self, X: Tensor) -> Tensor:
        """f(x_1), …, f(x_N); differentiable in X."""
        h = self.enter(X)
        for layer in self.layers:
            h = layer(h)
        return checks.squeezed(h)
