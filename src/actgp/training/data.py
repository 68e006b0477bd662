"""The data of a run: minibatches without end, and which rows a stage is trained on and judged by.

Rows that have chosen where stage 1 ends favour the network that it ends with: judged by them, almost any change of it
is for the worse. So stage 2 is judged by others, which had no part in stage 1, and those of stage 1 join its training:

    stage 1   train 80 %   judge 10 %   —
    stage 2   train 80 % + 10 %         judge 10 %
    stage 3   train 80 % + 10 % + 10 %

Where stage 1 or 2 is left out, only 10 % are held out, and stage 3 follows upon stage 2 only. Rows that are given to
judge by are divided between the stages in halves, and all others are trained on.

The order of minibatches can be taken up again where it was left.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from actgp import checks
from actgp.likelihoods import targets
from actgp.models import DeepGP
from actgp.training.recipe import Recipe

Batch = tuple[Tensor, Tensor]


FEWEST_TO_SPLIT = 200  # rows, below which too few would be held out to judge by
MOST_HELD_OUT = 1_000


class Batches(Protocol):
    """A source of minibatches.

    Attributes:
        num_data: N, the rows of the whole data set.
    """

    num_data: int

    def next(self) -> Batch:
        """The next minibatch; after the last of a pass, the first of the next."""
        ...

    def all(self) -> Iterator[Batch]:
        """One pass over all rows, which leaves the order of `next` alone."""
        ...

    def fingerprint(self) -> str:
        """Tells data sets apart."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Where it is in its order."""
        ...

    def restore(self, state: dict[str, Tensor]) -> None:
        """Goes there."""
        ...


def fingerprint(*tensors: Tensor) -> str:
    """Tells tensors apart."""
    digest = hashlib.sha256()
    for values in tensors:
        digest.update(f"{values.dtype} {list(values.shape)}".encode())
        digest.update(values.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


class TensorBatches:
    """Rows of tensors, shuffled anew in each pass."""

    def __init__(self, X: Tensor, y: Tensor, batch_size: int, generator: torch.Generator) -> None:
        self.X, self.y = X, y
        self.num_data = len(X)
        self.batch_size = min(batch_size, len(X))
        self.generator = generator
        self._begin()

    def next(self) -> Batch:
        if self.position >= self.num_data:
            self._begin()
        rows = self.order[self.position : self.position + self.batch_size].to(self.X.device)
        self.position += self.batch_size
        return self.X[rows], self.y[rows]

    def all(self) -> Iterator[Batch]:
        return zip(self.X.split(4 * self.batch_size), self.y.split(4 * self.batch_size), strict=True)

    def fingerprint(self) -> str:
        return fingerprint(self.X, self.y)

    def state(self) -> dict[str, Tensor]:
        return {"generator": self.began, "position": torch.tensor(self.position)}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.generator.set_state(state["generator"])
        self._begin()
        self.position = int(state["position"])

    def _begin(self) -> None:
        self.began = self.generator.get_state()
        self.order = torch.randperm(self.num_data, generator=self.generator)
        self.position = 0


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
            or not all(isinstance(part, Tensor) for part in batch)
        ):
            raise TypeError(
                f"a DataLoader must give pairs of tensors (X, y), got {type(batch).__name__}; "
                "use e.g. TensorDataset(X, y)"
            )
        X, y = (part.to(self.device) for part in batch)
        self.model.check_inputs(X)
        return X, targets(self.model.likelihood, y, len(X), self.model.num_outputs, X.dtype)


class StageData(NamedTuple):
    """Minibatches to train on, and rows that are held out."""

    batches: Batches
    held_out: Batch | None


def data_of_stages(
    model: DeepGP,
    X: Tensor | DataLoader[Any] | None,
    y: Tensor | None,
    recipe: Recipe,
    device: torch.device,
    generator: torch.Generator,
    given: Batch | None = None,
) -> tuple[StageData, ...]:
    """Checks the data, and divides them between the first two stages; a third has all, where some were held out.

    Args:
        model: What is trained.
        X: Inputs, or a DataLoader.
        y: Targets, where X is a tensor.
        recipe: How much is held out.
        device: Where the data go.
        generator: Draws what is held out, and orders.
        given: Rows to judge by; None to hold out some of the others.
    """
    first, second = _halves(model, given, device)
    if isinstance(X, DataLoader):
        if y is not None:
            raise ValueError("a DataLoader gives X and y, got y again; leave it out")
        loaded = LoaderBatches(X, model, device)
        return StageData(loaded, first), StageData(loaded, second)
    X, y = _moved(model, X, y, device)
    held_out = min(int(recipe.validation * len(X)), MOST_HELD_OUT) if len(X) >= FEWEST_TO_SPLIT else 0
    if held_out == 0 or given is not None:
        whole = TensorBatches(X, y, recipe.batch_size, generator)
        return StageData(whole, first), StageData(whole, second)
    stages = int(recipe.network_steps > 0) + int(recipe.num_steps > 0)
    order = torch.randperm(len(X), generator=generator).to(device)
    last = len(X) - held_out
    split = last - held_out if stages == 2 else last  # where there is one stage, one part is enough

    def part(rows: Tensor, judges: Tensor) -> StageData:
        own = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=generator)))
        return StageData(TensorBatches(X[rows], y[rows], recipe.batch_size, own), (X[judges], y[judges]))

    parts = part(order[:split], order[split : split + held_out]), part(order[:last], order[last:])
    if not recipe.rejoin or recipe.num_steps == 0:
        return parts
    own = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=generator)))
    return *parts, StageData(TensorBatches(X, y, recipe.batch_size, own), None)


def _halves(model: DeepGP, given: Batch | None, device: torch.device) -> tuple[Batch | None, Batch | None]:
    """Every other row for stage 1, and the rest for stage 2; a single row for both."""
    if given is None:
        return None, None
    X, y = _moved(model, *given, device)
    stride = 2 * -(-len(X) // (2 * MOST_HELD_OUT))
    second = slice(1 if len(X) > 1 else 0, None, stride)
    return (X[::stride], y[::stride]), (X[second], y[second])


def checked(model: DeepGP, X: Tensor | None, y: Tensor | None) -> Batch:
    """Rows that a model can be trained on or judged by; no gradients go to them."""
    if X is None or (y is None and isinstance(X, Tensor)):
        raise ValueError(
            f"{type(model).__name__} is trained on minibatches of X and y, got none; call fit(model, X, y)"
        )
    if y is None:
        raise TypeError(
            f"X must be a tensor or a DataLoader, got {type(X).__name__} without y; "
            "call fit(model, X, y), or wrap a data set in a DataLoader"
        )
    model.check_inputs(X)
    y = targets(model.likelihood, y, len(X), model.num_outputs, X.dtype)
    if model.backbone is None:
        checks.measurable(X, "X")
    if y.is_floating_point():
        checks.measurable(y, "y")
    return X.detach(), y.detach()


def _moved(model: DeepGP, X: Tensor | None, y: Tensor | None, device: torch.device) -> Batch:
    X, y = checked(model, X, y)
    return X.to(device), y.to(device)
