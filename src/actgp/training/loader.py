"""Minibatches from a DataLoader, whose order can be taken up again where it was left.

Of several ranks each takes its part of every batch, if all are given the same batches; or whole batches, if each is
given others: by a `DistributedSampler`, or by an iterable data set that gives every rank a part of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler

from actgp.likelihoods import targets
from actgp.models import DeepGP
from actgp.several import Inputs
from actgp.training import ranks

Batch = tuple[Any, Tensor]  # of X, a tensor or `Inputs`, and y

ROWS_TO_SUM = 100_000  # the most that sums of closed forms are found from, scaled to all rows
TARGETS = ("y", "target", "targets", "label", "labels")  # what they may be called in a batch that is a dictionary
MISCOUNTED = 1.5  # how far off num_data may be


class LoaderBatches:
    """A DataLoader's minibatches of (X, y), checked as they come, and moved to the model's device.

    Its order comes from its own generator or torch's global one; the states of both are what is remembered.

    Args:
        loader: Gives pairs (X, y), or dictionaries.
        model: What is trained.
        device: Where batches go.
        num_data: N, where the length of the data set is not known, or not that of a pass.
    """

    def __init__(
        self, loader: DataLoader[Any], model: DeepGP, device: torch.device, num_data: int | None = None
    ) -> None:
        self.loader, self.model, self.device = loader, model, device
        sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)  # it may take a part of the rows
        self.sampler = sampler if isinstance(sampler, DistributedSampler) else None
        self.num_data = self._length(sampler) if num_data is None else num_data
        self.is_given = num_data is not None
        self.own = False  # whether this rank is given batches of its own
        self.epoch = -1
        self._begin()
        if ranks.size() > 1:
            first = next(self.batches, None)
            same = first is not None and not ranks.differs(repr([float(t.double().sum()) for t in _tensors(first)]))
            self.own = not same
            self.epoch -= 1
            self._begin()

    def next(self) -> Batch:
        batch = next(self.batches, None)
        if batch is None:
            self._check_count()
            self._begin()
            batch = next(self.batches, None)
        if batch is None:
            raise ValueError(
                f"a DataLoader must give at least one batch in each pass, got none of {self.num_data} rows; give it a "
                "data set that can be gone through again"
            )
        self.position += 1
        X, y = self._checked(batch)
        self.seen += len(y)
        return (X, y) if self.own else ranks.even_shard(X, y)

    def all(self) -> Iterator[Batch]:
        self._agree()
        shared, own = torch.get_rng_state(), self._generator_state()
        try:
            for X, y in map(self._checked, self.loader):
                if self.own:
                    yield X, y
                elif len(ranks.shard(y)) > 0:
                    yield ranks.shard(X), ranks.shard(y)
        finally:  # also where the pass is left early
            torch.set_rng_state(shared)
            if self.loader.generator is not None:
                self.loader.generator.set_state(own)

    def sample(self, most: int) -> Iterator[Batch]:
        limit, seen = max(most, ROWS_TO_SUM), 0  # of the rows of a pass that are looked at
        stride = -(-min(self.num_data, limit) // most)
        for X, y in self.all():
            yield X[::stride], y[::stride]
            seen += len(y) * ranks.size()
            if seen >= limit:
                break

    def fingerprint(self) -> str:
        return f"a loader of {self.num_data} rows in batches of {self.loader.batch_size}"

    def state(self) -> dict[str, Tensor]:
        return {**self.began, "position": torch.tensor(self.position), "epoch": torch.tensor(self.epoch)}

    def restore(self, state: dict[str, Tensor]) -> None:
        now = torch.get_rng_state()
        torch.set_rng_state(state["shared"])
        if self.loader.generator is not None:
            self.loader.generator.set_state(state["own"])
        self.epoch = int(state["epoch"]) - 1
        self._begin()
        for _ in range(int(state["position"])):
            self.seen += len(self._checked(next(self.batches))[1])
            self.position += 1
        torch.set_rng_state(now)

    def _length(self, sampler: Any) -> int:
        """The rows of a pass, over all ranks."""
        try:
            num_data = min(len(self.loader.dataset), len(sampler) * (1 if self.sampler is None else ranks.size()))  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(
                "a DataLoader must have a data set of known length, got an iterable one; pass num_data=, the number of "
                "its rows"
            ) from None
        if num_data == 0 or len(self.loader) == 0:
            raise ValueError(
                f"a DataLoader must give at least one batch, got {num_data} rows in {len(self.loader)} batches; "
                "pass some data, and drop_last=False"
            )
        return num_data

    def _check_count(self) -> None:
        """Refuses a num_data that was given, and that a pass has shown to be wrong: the KL would be weighted by it."""
        seen = self.seen * (ranks.size() if self.own else 1)
        if self.is_given and not self.num_data / MISCOUNTED <= seen <= self.num_data * MISCOUNTED:
            raise ValueError(
                f"num_data must be the rows of a pass, over all ranks, got {self.num_data}, where a pass has given "
                f"{seen}; count them, and let each rank have rows of its own"
            )

    def _begin(self) -> None:
        self._agree()
        self.began = {"shared": torch.get_rng_state(), "own": self._generator_state()}
        self.epoch += 1
        if self.sampler is not None:
            self.sampler.set_epoch(self.epoch)
        self.batches = iter(self.loader)
        self.position = self.seen = 0

    def _agree(self) -> None:
        """Ranks that take parts of the same batches have them in the same order."""
        if self.own or ranks.size() == 1:
            return
        torch.set_rng_state(ranks.from_first(torch.get_rng_state))
        if self.loader.generator is not None:
            self.loader.generator.set_state(ranks.from_first(self._generator_state))

    def _generator_state(self) -> Tensor:
        generator = self.loader.generator
        return torch.empty(0, dtype=torch.uint8) if generator is None else generator.get_state()

    def _checked(self, batch: Any) -> Batch:
        pair = _pair(batch)
        if pair is None or not isinstance(X := self.model.rows(pair[0]), Tensor | Inputs):
            raise TypeError(
                f"a DataLoader must give pairs of tensors (X, y), got {type(batch).__name__}; use e.g. "
                f"TensorDataset(X, y), or dictionaries with one of {', '.join(TARGETS)}"
            )
        X, y = X.to(self.device), pair[1].to(self.device)
        self.model.check_inputs(X)
        y = targets(self.model.likelihood, y, len(X), self.model.num_outputs, self.model.dtype)
        return X, y


def _pair(batch: Any) -> tuple[Any, Tensor] | None:
    """(X, y), of a dictionary, too; X is what the others of its entries are."""
    if isinstance(batch, Mapping):
        names = [name for name in TARGETS if name in batch]
        others = {name: values for name, values in batch.items() if name not in names}
        if len(names) != 1 or not others:
            return None
        batch = (next(iter(others.values())) if len(others) == 1 else others, batch[names[0]])
    if not isinstance(batch, list | tuple) or len(batch) != 2 or not isinstance(batch[1], Tensor):
        return None
    return batch[0], batch[1]


def _tensors(batch: Any) -> list[Tensor]:
    pair = _pair(batch)
    if pair is None:
        return []
    X = (
        pair[0].values()
        if isinstance(pair[0], Mapping)
        else pair[0]
        if isinstance(pair[0], list | tuple)
        else [pair[0]]
    )
    return [*X, pair[1]]
