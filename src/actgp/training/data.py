"""The data of a run: minibatches without end, and which rows a stage is trained on and validated on.

Rows that have chosen where stage 1 ends favour the network that it ends with: on them, almost any change of it is for
the worse. So stage 2 is validated on others, which had no part in stage 1, and those of stage 1 join its training:

    stage 1   train 80 %   validate 10 %   —
    stage 2   train 80 % + 10 %            validate 10 %
    stage 3   train 80 % + 10 % + 10 %

Where stage 1 or 2 is left out, only 10 % are held out, and stage 3 follows upon stage 2 only. Held-out rows that are
given are divided between the two stages in halves, or belong to the only stage, and all others are trained on.

The order of minibatches can be taken up again where it was left.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import DataLoader

from actgp import checks
from actgp.likelihoods import targets
from actgp.models import DeepGP
from actgp.on_disk import Table
from actgp.several import Inputs, Rows
from actgp.training import ranks
from actgp.training.blocks import BlockBatches
from actgp.training.loader import Batch, LoaderBatches
from actgp.training.recipe import Recipe

ROWS = 512  # that go through a backbone at a time
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
        """One pass over all rows, which leaves the order of `next` alone; of several ranks, each has its part."""
        ...

    def sample(self, most: int) -> Iterator[Batch]:
        """The same of at most so many rows, from all over the data."""
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
    """Rows of tensors, shuffled anew in each pass; of each minibatch every rank has its part.

    Args:
        X: Inputs.
        y: Targets.
        batch_size: Rows in a minibatch, over all ranks.
        generator: Draws the orders.
        rows: Which rows of X and y; all by default.
    """

    def __init__(
        self, X: Tensor, y: Tensor, batch_size: int, generator: torch.Generator, rows: Tensor | None = None
    ) -> None:
        self.X, self.y = X, y
        self.rows = torch.arange(len(X)) if rows is None else rows
        self.num_data = len(self.rows)
        self.batch_size = min(batch_size, self.num_data)
        self.generator = generator
        self._begin()

    def next(self) -> Batch:
        if self.position >= self.num_data:
            self._begin()
        rows = self.rows[self.order[self.position : self.position + self.batch_size]]
        self.position += self.batch_size
        return self._at(rows[ranks.even_rows(len(rows))])

    def all(self) -> Iterator[Batch]:
        return self.sample(self.num_data)

    def sample(self, most: int) -> Iterator[Batch]:
        rows = self.rows[:: -(-self.num_data // most)]
        shards = map(ranks.shard, rows.split(4 * self.batch_size))
        return (self._at(shard) for shard in shards if len(shard) > 0)

    def fingerprint(self) -> str:
        return fingerprint(self.X, self.y)

    def state(self) -> dict[str, Tensor]:
        return {"generator": self.began, "position": torch.tensor(self.position)}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.generator.set_state(state["generator"])
        self._begin()
        self.position = int(state["position"])

    def _at(self, rows: Tensor) -> Batch:
        rows = rows.to(self.X.device)
        return self.X[rows], self.y[rows]

    def _begin(self) -> None:
        self.began = self.generator.get_state()
        self.order = torch.randperm(self.num_data, generator=self.generator)
        self.position = 0


class StageData(NamedTuple):
    """Minibatches to train on, and rows that are held out."""

    batches: Batches
    held_out: Batch | None


def data_of_stages(
    model: DeepGP,
    X: Tensor | DataLoader[Any] | Table | None,
    y: Tensor | None,
    recipe: Recipe,
    device: torch.device,
    generator: torch.Generator,
    given: Batch | None = None,
    num_data: int | None = None,
) -> tuple[StageData, ...]:
    """Checks the data, and divides them between the first two stages; a third has all, where some were held out.

    Args:
        model: What is trained.
        X: Inputs, a DataLoader, or rows on the disk.
        y: Targets, where X is a tensor.
        recipe: How much is held out.
        device: Where the data go.
        generator: Draws what is held out, and orders.
        given: Held-out rows; None to hold out some of the others.
        num_data: The rows of a DataLoader that has no length.
    """
    stages = int(recipe.network_steps > 0) + int(recipe.num_steps > 0)
    first, second = _divided(model, given, device, stages)
    if isinstance(X, DataLoader):
        if y is not None:
            raise ValueError("a DataLoader gives X and y, got y again; leave it out")
        loaded = LoaderBatches(X, model, device, num_data)
        return StageData(loaded, first), StageData(loaded, second)
    N = sum(X.sizes) if isinstance(X, Table) else 0 if X is None else len(X)
    held_out = min(int(recipe.validation * N), MOST_HELD_OUT) if N >= FEWEST_TO_SPLIT else 0
    if isinstance(X, Table):
        return _data_of_table(model, X, recipe, device, generator, (first, second), 0 if given else held_out, stages)
    X, y = _moved(model, X, y, device)
    if held_out == 0 or given is not None:
        whole = TensorBatches(X, y, recipe.batch_size, generator)
        return StageData(whole, first), StageData(whole, second)
    order = torch.randperm(len(X), generator=generator)
    last = len(X) - held_out
    split = last - held_out if stages == 2 else last  # where there is one stage, one part is enough

    def part(rows: Tensor, held_out: Tensor) -> StageData:
        own = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=generator)))
        held_out = held_out.to(device)
        return StageData(TensorBatches(X, y, recipe.batch_size, own, rows), (X[held_out], y[held_out]))

    parts = part(order[:split], order[split : split + held_out]), part(order[:last], order[last:])
    if not recipe.use_all_rows or recipe.num_steps == 0:
        return parts
    own = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=generator)))
    return *parts, StageData(TensorBatches(X, y, recipe.batch_size, own), None)


def _data_of_table(
    model: DeepGP,
    table: Table,
    recipe: Recipe,
    device: torch.device,
    generator: torch.Generator,
    given: tuple[Batch | None, Batch | None],
    held_out: int,
    stages: int,
) -> tuple[StageData, ...]:
    """The same of rows on the disk."""

    def batches(without: Tensor | None = None) -> BlockBatches:
        own = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=generator)))
        return BlockBatches(table, model, device, recipe.batch_size, own, without)

    whole = batches()
    if held_out == 0:
        return tuple(StageData(whole, rows) for rows in given)
    ids = whole.drawn(max(1, stages) * held_out)
    firsts, seconds = ids[:held_out].sort().values, ids[-held_out:].sort().values
    parts = (
        StageData(batches(ids.unique()), whole.rows(firsts)),
        StageData(batches(seconds), whole.rows(seconds)),
    )
    return (*parts, StageData(batches(), None)) if recipe.use_all_rows and recipe.num_steps > 0 else parts


def _divided(
    model: DeepGP, given: Batch | None, device: torch.device, stages: int
) -> tuple[Batch | None, Batch | None]:
    """Every other row for stage 1, and the rest for stage 2; all, or a single row, for the only stage or for both."""
    if given is None:
        return None, None
    X, y = _moved(model, *given, device)
    halves = 2 if stages == 2 and len(X) > 1 else 1
    stride = halves * -(-len(X) // (halves * MOST_HELD_OUT))
    second = slice(halves - 1, None, stride)
    return (X[::stride], y[::stride]), (X[second], y[second])


def checked(model: DeepGP, X: Rows | None, y: Tensor | None) -> Batch:
    """Rows that a model can be trained or validated on; no gradients go to them."""
    if X is None or (y is None and isinstance(X, Tensor | Inputs)):
        raise ValueError(
            f"{type(model).__name__} is trained on minibatches of X and y, got none; call fit(model, X, y)"
        )
    if y is None:
        raise TypeError(
            f"X must be a tensor or a DataLoader, got {type(X).__name__} without y; "
            "call fit(model, X, y), or wrap a data set in a DataLoader"
        )
    model.check_inputs(X)
    y = targets(model.likelihood, y, len(X), model.num_outputs, model.dtype)
    if model.backbone is None and isinstance(X, Tensor):
        checks.measurable(X, "X")
    if y.is_floating_point():
        checks.measurable(y, "y")
    return X.detach(), y.detach()


def _moved(model: DeepGP, X: Any, y: Tensor | None, device: torch.device) -> tuple[Tensor, Tensor]:
    X, y = checked(model, X, y)
    return X.to(device), y.to(device)


@torch.no_grad()
def backbone_features(model: DeepGP, X: Rows) -> Float[Tensor, "N D"]:
    """What the first layer is given at each input, by the backbone in evaluation mode."""
    model.eval()
    device = next(model.parameters()).device
    return torch.cat([model.enter(part.to(device)) for part in X.split(ROWS)])
