"""The rows that a model knows, some of them: how far a row is from these, and what its columns do to predictions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float64
from numpy.typing import NDArray
from torch import Tensor

from actgp.persistence import Sizes, savable

Values = NDArray[np.float64]

MOST_ROWS = 1_000  # that are kept
MOST_ASKED = 20_000  # predictions that relevance is computed from, if there are so few columns
FEWEST_ASKED = 32  # rows, else


@savable
@dataclass(frozen=True)
class Surroundings:
    """Rows of `fit`, standardised.

    Attributes:
        rows: The rows.
        distances: From each to the nearest other one, sorted.
    """

    SIZES: ClassVar[Sizes] = {"rows": ("number", "columns"), "distances": ("number",)}

    rows: Float64[Tensor, "n D"]
    distances: Float64[Tensor, " n"]

    @classmethod
    def of(cls, rows: Float64[Tensor, "N D"], generator: torch.Generator) -> "Surroundings":
        """As many rows as are kept."""
        kept = rows[torch.randperm(len(rows), generator=generator)[:MOST_ROWS]].clone()
        between = torch.cdist(kept, kept)
        between.fill_diagonal_(float("inf"))
        return cls(kept, between.amin(1).sort().values)

    def outlyingness(self, rows: Float64[Tensor, "N D"]) -> Float64[Tensor, " N"]:
        """The part of the kept rows that are nearer to another kept row than a row is to its nearest one."""
        nearest = torch.cat([torch.cdist(part, self.rows).amin(1) for part in rows.split(MOST_ROWS)])
        return torch.searchsorted(self.distances, nearest) / len(self.distances)

    def relevance(
        self, predict: Callable[[Tensor], Tensor], groups: Sequence[int], generator: torch.Generator
    ) -> Values:
        """The total effect of each group of columns (Jansen, 1999): 0 for one that predictions do not depend on.

            E[(μ(x) − μ(x′))²] / (2 Var μ(x)),    x′ with the columns of another row

        Args:
            predict: μ, [N, P] for [N, D].
            groups: How many columns each group has, in order.
            generator: Draws the other rows.
        """
        rows = self.rows[: max(FEWEST_ASKED, MOST_ASKED // max(1, len(groups)))]
        mean = predict(rows)
        spread = mean.var(0, correction=0).sum()
        found, start = [], 0
        for width in groups:
            other, columns = rows.clone(), slice(start, start + width)
            other[:, columns] = rows[torch.randperm(len(rows), generator=generator)][:, columns]
            change = (predict(other) - mean).square().mean(0).sum() if width else spread.new_zeros(())
            found.append((change / (2 * spread)).item() if spread > 0 else 0.0)
            start += width
        return np.array(found)
