"""The inputs on which a conversion is fitted, steered and measured.

The network answers for any input, so small data sets are filled up with neighbours of their rows,
x_i + u (x_j − x_k) with u uniform on [0, 0.3]: differences of rows keep the correlations of the data.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

HELD_OUT = 0.2
MOST_HELD_OUT = 1_000
JUDGED = 1_000
SPREAD = 0.3
SYNTHETIC = 2_000


@dataclass(frozen=True)
class Rows:
    """Inputs of the head, in float64.

    Attributes:
        fit: Rows to fit.
        test: Rows to measure the result on, used for nothing else.
        judge: Rows by which choices are made: neighbours of those to fit.
        generator: Draws rows, and all else that a conversion draws.
    """

    fit: Float64[Tensor, "N D"]
    test: Float64[Tensor, "T D"]
    judge: Float64[Tensor, "J D"]
    generator: torch.Generator

    def draw(self, count: int) -> Float64[Tensor, "C D"]:
        """Rows to fit: half of them (or all, if there are fewer) as they are, the rest neighbours of them."""
        own = self.fit[_permutation(len(self.fit), self.generator)[: max(1, count // 2)].to(self.fit.device)]
        return torch.cat([own, _neighbours(self.fit, count - len(own), self.generator)])


def split_rows(X: Float64[Tensor, "N D"], generator: torch.Generator) -> Rows:
    """Holds out a fifth of the rows."""
    order = _permutation(len(X), generator).to(X.device)
    held = min(MOST_HELD_OUT, round(HELD_OUT * len(X)))
    fit = X[order[held:]]
    return Rows(fit, X[order[:held]], _neighbours(fit, JUDGED, generator), generator)


def _neighbours(X: Float64[Tensor, "N D"], count: int, generator: torch.Generator) -> Float64[Tensor, "C D"]:
    i, j, k = torch.randint(len(X), (3, count), generator=generator).to(X.device)
    u = SPREAD * torch.rand(count, 1, generator=generator, dtype=torch.float64).to(X.device)
    return X[i] + u * (X[j] - X[k])


def _permutation(count: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(count, generator=generator)
