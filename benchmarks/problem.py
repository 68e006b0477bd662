"""What is measured: three layers of width D, M inducing variables, a minibatch, S samples."""

from dataclasses import dataclass

import torch
from torch import Tensor

NUM_LAYERS = 3


@dataclass(frozen=True)
class Problem:
    """One point of the grid.

    Attributes:
        input_dim: D, also the width between layers.
        num_inducing: M, also the units of the network.
        num_outputs: P, of the last layer.
        batch: Rows of a minibatch.
        num_samples: Paths through the hidden layers.
        rows: Rows of a prediction.
        prediction_samples: Paths of a prediction.
        num_data: Rows of the training set.
    """

    input_dim: int = 8
    num_inducing: int = 128
    num_outputs: int = 1
    batch: int = 128
    num_samples: int = 1
    rows: int = 10_000
    prediction_samples: int = 10
    num_data: int = 10_000

    @property
    def widths(self) -> list[int]:
        """D, H, …, P."""
        return [self.input_dim] * NUM_LAYERS + [self.num_outputs]

    def minibatch(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets."""
        return self._draw(self.batch)

    def data(self) -> tuple[Tensor, Tensor]:
        """A training set, for what looks at all of it."""
        return self._draw(self.num_data)

    def test_inputs(self) -> Tensor:
        """Where to predict."""
        return self._draw(self.rows)[0]

    def _draw(self, rows: int) -> tuple[Tensor, Tensor]:
        g = torch.Generator().manual_seed(rows)
        X = torch.randn(rows, self.input_dim, generator=g)
        y = torch.sin(X @ torch.randn(self.input_dim, self.num_outputs, generator=g))
        return X, y + 0.1 * torch.randn(rows, self.num_outputs, generator=g)
