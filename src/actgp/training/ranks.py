"""Several processes that train one model, each on its part of the rows: all that they say to each other.

Every rank holds the whole model and takes the same steps. What is random is drawn alike in all of them, orders of rows
and the noise of paths for the rows of all ranks, and each rank takes its part: so K ranks do what one process does with
the same minibatches, up to round-off. They say three kinds of things: means of gradients and scores, sums over the rows
of closed forms, and what rank 0 has read, chosen or started with. In a single process each function gives back what it
is given.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

T = TypeVar("T")
Sliced = TypeVar("Sliced", bound=Any)  # a tensor, or `Inputs`: something that has rows


def join() -> None:
    """Joins the processes that torchrun has launched, unless the script has done so."""
    launched = distributed.is_available() and distributed.is_torchelastic_launched()
    if launched and int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized():
        distributed.init_process_group()


def check_alone(what: str) -> None:
    """Refuses several ranks: each would end with a model of its own, under the same file names."""
    join()
    if size() > 1:
        raise RuntimeError(
            f"{what} must run in one process, since it is not distributed, got {size()} ranks; run the script with "
            "plain python, or train a model of deep_gp by fit, which is"
        )


def size() -> int:
    """K, the number of processes."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """Which of them this one is, from 0 to K − 1."""
    return distributed.get_rank() if size() > 1 else 0


def shard(rows: Sliced) -> Sliced:
    """This rank's rows, every K-th: together the ranks have each row once. For sums."""
    return rows if size() == 1 else rows[rank() :: size()]


def even_rows(N: int) -> slice | Tensor:
    """Which of N rows are this rank's, as many for each; the first ones again where K does not divide N. For means."""
    if N % size() == 0:
        return slice(rank(), None, size())
    return torch.arange(rank(), -(-N // size()) * size(), size()) % N


def even_shard(X: Any, y: Tensor) -> tuple[Any, Tensor]:
    """These rows of a minibatch."""
    rows = even_rows(len(y))
    return X[rows], y[rows]


def average_(tensors: Sequence[Tensor]) -> None:
    """Replaces tensors by their means over the ranks, with one message."""
    if size() == 1:
        return
    flat = torch.cat([values.flatten() for values in tensors])
    with _explained():
        distributed.all_reduce(flat)
    for values, mean in zip(tensors, flat.div_(size()).split([t.numel() for t in tensors]), strict=True):
        values.copy_(mean.view_as(values))


def mean(values: Tensor) -> Tensor:
    """The mean over the ranks."""
    return values if size() == 1 else total(values) / size()


def mean_number(value: float) -> float:
    """The mean over the ranks, the same to the last bit on each."""
    return value if size() == 1 else mean(torch.tensor(value, dtype=torch.float64, device=_device())).item()


def total(values: Tensor) -> Tensor:
    """The sum over the ranks."""
    if size() == 1:
        return values
    found = values.clone(memory_format=torch.contiguous_format)
    with _explained():
        distributed.all_reduce(found)
    return found


def gathered(rows: Tensor) -> Tensor:
    """The rows of all ranks, taken in turn as `shard` deals them; each may have another number."""
    if size() == 1:
        return rows
    counts = torch.zeros(size(), dtype=torch.int64, device=rows.device)
    counts[rank()] = len(rows)
    counts = total(counts)
    most = int(counts.max())
    dealt = rows.new_zeros(most, size(), *rows.shape[1:])
    dealt[: len(rows), rank()] = rows
    return total(dealt)[torch.arange(most, device=rows.device).unsqueeze(1) < counts]


def any_of(flag: bool) -> bool:
    """Whether it is so in any rank."""
    return flag if size() == 1 else mean_number(float(flag)) > 0


def copy_first(tensors: Iterable[Tensor]) -> None:
    """Replaces tensors by those of rank 0."""
    if size() == 1:
        return
    for values in tensors:
        sent = values.detach().contiguous()
        with _explained():
            distributed.broadcast(sent, 0)
        values.detach().copy_(sent)


def from_first(function: Callable[[], T]) -> T:
    """What a function gives in rank 0, where alone it is called; all ranks raise its error."""
    if size() == 1:
        return function()
    outcome: list[Any] = [None, None]
    if rank() == 0:
        try:
            outcome[0] = function()
        except Exception as error:  # raised below
            outcome[1] = error
    with _explained():
        distributed.broadcast_object_list(outcome)
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]


def differs(value: str) -> bool:
    """Whether a value is not the same in all ranks."""
    return any_of(from_first(lambda: value) != value)


def check_same(what: str, value: str, remedy: str) -> None:
    """Refuses a value that is not that of rank 0."""
    if differs(value):
        raise ValueError(f"{what} must be the same in all {size()} ranks, got others than those of rank 0; {remedy}")


def _device() -> torch.device:
    """Where numbers have to be to be sent."""
    if distributed.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


@contextmanager
def _explained() -> Iterator[None]:
    """Says what it means when another rank does not answer."""
    try:
        yield
    except RuntimeError as error:
        raise RuntimeError(
            f"all {size()} ranks must train together, got no answer from another one in rank {rank()}: it has ended, "
            "as its own message may say, or cannot be reached; run the job again: with checkpoint= it goes on from "
            "the file, in any number of processes"
        ) from error
