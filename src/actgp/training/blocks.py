"""Minibatches of rows that stay on the disk.

In each pass the blocks of a table are taken in a new order; as many as fill a buffer are in memory at a time, their
rows shuffled together. Of several ranks each reads other blocks. Rows that are held out, and those that closed forms
are found from, come from blocks all over the data.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from actgp import checks
from actgp.likelihoods import targets
from actgp.models import DeepGP
from actgp.on_disk import Table
from actgp.training import ranks
from actgp.training.loader import Batch

BUFFER = 131_072  # rows that are shuffled together, unless a single block has more
CHUNK = 2_048  # rows that go through the model at a time, outside of training
SPREAD = 16  # blocks that a sample is taken from, at least
SEED = 0


class BlockBatches:
    """Minibatches of a table, shuffled within buffers of blocks that are taken in a new order in each pass.

    Args:
        table: The rows.
        model: What is trained.
        device: Where batches go.
        batch_size: Rows in a minibatch, over all ranks.
        generator: Draws orders.
        without: Rows that are left out, in ascending order.
    """

    def __init__(
        self,
        table: Table,
        model: DeepGP,
        device: torch.device,
        batch_size: int,
        generator: torch.Generator,
        without: Tensor | None = None,
    ) -> None:
        self.table, self.model, self.device, self.generator = table, model, device, generator
        self.without = torch.empty(0, dtype=torch.int64) if without is None else without
        if not table.has_targets:
            raise ValueError(
                "rows on the disk must have targets to be trained on, got none; pass y, for a data set the name of its "
                "column"
            )
        self.starts = [0, *accumulate(table.sizes)]
        self.num_data = self.starts[-1] - len(self.without)
        self.batch_size = -(-min(batch_size, self.num_data) // ranks.size())
        if len(table.sizes) < ranks.size():
            raise ValueError(
                f"rows on the disk must be in at least as many blocks as there are ranks, got {len(table.sizes)} for "
                f"{ranks.size()}; write smaller row groups, or load the rows"
            )
        self._begin_pass()

    def next(self) -> Batch:
        while self.position >= len(self.buffer[1]):
            if self.block >= len(self.order):
                self._begin_pass()
            self._fill()
        rows = slice(self.position, self.position + self.batch_size)
        self.position += self.batch_size
        return self.buffer[0][rows], self.buffer[1][rows]

    def all(self) -> Iterator[Batch]:
        for block in range(ranks.rank(), len(self.table.sizes), ranks.size()):
            yield from _chunks(*self.read(block))

    def sample(self, most: int) -> Iterator[Batch]:
        if self.num_data <= most:
            yield from self.all()
            return
        wanted = -(-most // ranks.size())
        of_each = -(-most // min(SPREAD, len(self.table.sizes)))
        for block in self._own(torch.Generator().manual_seed(SEED)):
            X, y = self.read(block)
            kept = slice(None, None, max(1, len(y) // of_each))
            X, y = X[kept][:wanted], y[kept][:wanted]
            yield from _chunks(X, y)
            wanted -= len(y)
            if wanted <= 0:
                return

    def read(self, block: int) -> Batch:
        """The rows of a block, checked, but for those that are left out."""
        X, y = self._checked(*self.table.read(block))
        kept = torch.ones(len(y), dtype=torch.bool)
        kept[self._inside(self.without, block)] = False
        return (X, y) if kept.all() else (X[kept], y[kept])

    def rows(self, ids: Tensor) -> Batch:
        """Some rows, in ascending order."""
        parts = [
            [values[inside] for values in self._checked(*self.table.read(block))]
            for block in range(len(self.table.sizes))
            if len(inside := self._inside(ids, block)) > 0
        ]
        X, y = (torch.cat(values) for values in zip(*parts, strict=True))
        return X, y

    def drawn(self, count: int) -> Tensor:
        """Which rows are held out: so many, from blocks all over the data."""
        blocks = torch.randperm(len(self.table.sizes), generator=self.generator)[: 2 * SPREAD].tolist()
        ids = torch.cat([torch.arange(self.starts[b], self.starts[b + 1]) for b in blocks])
        return ids[torch.randperm(len(ids), generator=self.generator)[:count]]

    def fingerprint(self) -> str:
        first, last = self.table.read(0), self.table.read(len(self.table.sizes) - 1)
        ends = [float(np.abs(np.asarray(values, dtype=np.float64)).sum()) for values in (*first, *last)]
        return f"{self.starts[-1]} rows on the disk, which begin and end with {ends}"

    def state(self) -> dict[str, Tensor]:
        first = torch.tensor(self.first * ranks.size())
        return {"order": self.began, "shuffle": self.shuffled, "block": first, "position": torch.tensor(self.position)}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.generator.set_state(state["order"])
        self._begin_pass()
        self.generator.set_state(state["shuffle"])
        self.block = int(state["block"]) // ranks.size()
        if int(state["position"]) > 0:
            self._fill()
        self.position = int(state["position"])

    def _begin_pass(self) -> None:
        self.began = self.generator.get_state()
        self.order = self._own(self.generator)
        self.shuffled = self.generator.get_state()
        self.block = self.first = self.position = 0
        self.buffer: Batch = (torch.empty(0), torch.empty(0))

    def _own(self, generator: torch.Generator) -> list[int]:
        """The blocks of this rank, in a new order."""
        return ranks.shard(torch.randperm(len(self.table.sizes), generator=generator)).tolist()

    def _fill(self) -> None:
        """Reads blocks into the buffer, and shuffles their rows."""
        self.shuffled, self.first = self.generator.get_state(), self.block
        self.buffer, parts, count = (torch.empty(0), torch.empty(0)), [], 0  # the old one goes first
        while self.block < len(self.order) and (count == 0 or count + self._next_size() <= BUFFER):
            parts.append(self.read(self.order[self.block]))
            count += len(parts[-1][1])
            self.block += 1
        X, y = (torch.cat(values) for values in zip(*parts, strict=True))
        rows = torch.randperm(len(y), generator=self.generator).to(self.device)
        self.buffer, self.position = (X[rows], y[rows]), 0

    def _next_size(self) -> int:
        return self.table.sizes[self.order[self.block]]

    def _inside(self, ids: Tensor, block: int) -> Tensor:
        """Where in a block some rows are."""
        return ids[(ids >= self.starts[block]) & (ids < self.starts[block + 1])] - self.starts[block]

    def _checked(self, given: Any, y_given: Any) -> Batch:
        model, X = self.model, torch.from_numpy(given).to(self.device)
        X = X.to(model.dtype) if model.backbone is None else X
        model.check_inputs(X)
        y = targets(model.likelihood, torch.from_numpy(y_given).to(self.device), len(X), model.num_outputs, model.dtype)
        if y.is_floating_point():
            checks.measurable(y, "y")
        return X, y


def _chunks(X: Tensor, y: Tensor) -> Iterator[Batch]:
    return zip(X.split(CHUNK), y.split(CHUNK), strict=True) if len(y) > 0 else iter(())
