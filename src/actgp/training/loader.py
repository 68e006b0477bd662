"""Minibatches from a DataLoader, whose order can be taken up again where it was left."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from actgp.likelihoods import targets
from actgp.models import DeepGP
from actgp.several import Inputs

Batch = tuple[Any, Tensor]  # of X, a tensor or `Inputs`, and y


class LoaderBatches:
    """A DataLoader's minibatches of (X, y), checked as they come, and moved to the model's device.

    Its order comes from its own generator or torch's global one; the states of both are what is remembered.
    """

    def __init__(self, loader: DataLoader[Any], model: DeepGP, device: torch.device) -> None:
        self.loader, self.model, self.device = loader, model, device
        try:
            sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)  # it may take a part of the rows
            self.num_data = min(len(loader.dataset), len(sampler))  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(
                "a DataLoader must have a data set of known length, got an iterable one; "
                "use a map-style data set, or pass tensors"
            ) from None
        if self.num_data == 0 or len(loader) == 0:
            raise ValueError(
                f"a DataLoader must give at least one batch, got {self.num_data} rows in {len(loader)} batches; "
                "pass some data, and drop_last=False"
            )
        self._begin()

    def next(self) -> Batch:
        batch = next(self.batches, None)
        if batch is None:
            self._begin()
            batch = next(self.batches)
        self.position += 1
        return self._checked(batch)

    def all(self) -> Iterator[Batch]:
        shared, own = torch.get_rng_state(), self._generator_state()
        try:
            yield from (self._checked(batch) for batch in self.loader)
        finally:  # also where the pass is left early
            torch.set_rng_state(shared)
            if self.loader.generator is not None:
                self.loader.generator.set_state(own)

    def fingerprint(self) -> str:
        return f"a loader of {self.num_data} rows in {len(self.loader)} batches"

    def state(self) -> dict[str, Tensor]:
        return {**self.began, "position": torch.tensor(self.position)}

    def restore(self, state: dict[str, Tensor]) -> None:
        now = torch.get_rng_state()
        torch.set_rng_state(state["shared"])
        if self.loader.generator is not None:
            self.loader.generator.set_state(state["own"])
        self._begin()
        for _ in range(int(state["position"])):
            next(self.batches)
            self.position += 1
        torch.set_rng_state(now)

    def _begin(self) -> None:
        self.began = {"shared": torch.get_rng_state(), "own": self._generator_state()}
        self.batches = iter(self.loader)
        self.position = 0

    def _generator_state(self) -> Tensor:
        generator = self.loader.generator
        return torch.empty(0, dtype=torch.uint8) if generator is None else generator.get_state()

    def _checked(self, batch: Any) -> Batch:
        if (
            not isinstance(batch, list | tuple)
            or len(batch) != 2
            or not isinstance(batch[1], Tensor)
            or not isinstance(X := self.model.rows(batch[0]), Tensor | Inputs)
        ):
            raise TypeError(
                f"a DataLoader must give pairs of tensors (X, y), got {type(batch).__name__}; "
                "use e.g. TensorDataset(X, y)"
            )
        X, y = X.to(self.device), batch[1].to(self.device)
        self.model.check_inputs(X)
        return X, targets(self.model.likelihood, y, len(X), self.model.num_outputs, self.model.dtype)
