"""A network read at all rows, a batch at a time: of these only outputs, features and targets are kept in memory."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import DataLoader

from actgp import checks
from actgp.convert.anchor import Sees, Select, Sight, look, run, seen
from actgp.several import GivenRows, Rows, gathered, parts_of_inputs

ROWS = 512  # that go through the network at a time
SOME_ROWS = 32
FEWEST_ROWS = 10
TOLERANCE = 1e-3  # of a row's outputs, relative to their size, if it comes alone instead of in a batch


class Reading(NamedTuple):
    """What a network makes of its rows.

    Attributes:
        sight: What the GP sees of it.
        parts: That, not yet centred and scaled.
        outputs: Its outputs.
        flat: Whether it gives [N] rather than [N, 1].
        y: The targets of these rows; None without.
        first: The first of the rows.
    """

    sight: Sight
    parts: list[Float[Tensor, "N _"]]
    outputs: Float[Tensor, "N P"]
    flat: bool
    y: Tensor | None
    first: Rows


def read(
    network: nn.Module,
    X: GivenRows | DataLoader[Any],
    y: Tensor | None,
    select: Select | None,
    sees: Sees,
    layers: Sequence[str],
) -> Reading:
    """Checks a network and its inputs, and runs it at all of them."""
    first, sight, found, targets = None, None, [], []
    for rows, labels in _batches(X, y):
        check_rows(network, rows)
        if first is None or sight is None:
            first = rows[:ROWS]
            check_network(network, rows[:SOME_ROWS], select)
            sight = look(network, rows[:SOME_ROWS], select, sees, layers)
        for part in rows.split(ROWS):
            result = run(network, part, sight.head, select, sight.layers)
            found.append((result.outputs, *seen(part, result, sight)))
            flat = result.flat
        if labels is not None:
            targets.append(labels)
    if first is None or sight is None or sum(len(outputs) for outputs, *_ in found) < FEWEST_ROWS:
        raise ValueError(
            f"a network is converted with at least {FEWEST_ROWS} rows of X, got {sum(len(part[0]) for part in found)}; "
            "pass some of the inputs that it was trained on"
        )
    outputs, *parts = (torch.cat(tensors) for tensors in zip(*found, strict=True))
    labels = torch.cat(targets) if targets else None
    return Reading(sight, parts, checks.finite(outputs, "the network's outputs"), flat, labels, first)


def _batches(X: GivenRows | DataLoader[Any], y: Tensor | None) -> Iterator[tuple[Rows, Tensor | None]]:
    """Pairs (X, y): all rows at once, or those that a DataLoader gives."""
    if not isinstance(X, DataLoader):
        yield gathered(X), y
        return
    if y is not None:
        raise ValueError("a DataLoader gives X and y, got y again; leave it out")
    for batch in X:
        if not isinstance(batch, tuple | list) or len(batch) != 2 or not isinstance(batch[1], Tensor):
            raise TypeError(
                f"a DataLoader must give pairs (X, y), y a tensor, got {type(batch).__name__}; use e.g. "
                "TensorDataset(X, y)"
            )
        yield gathered(batch[0]), batch[1]


def check_rows(network: nn.Module, X: Rows) -> None:
    """Refuses what may not go through a network."""
    floating = [p for p in network.parameters() if p.is_floating_point()]
    for values in parts_of_inputs(X):
        if not isinstance(values, Tensor):
            raise TypeError(
                f"X must be a tensor, or a tuple or dictionary of tensors, got {type(values).__name__}; convert it "
                "with torch.as_tensor, or pass a DataLoader that gives pairs (X, y)"
            )
        if values.is_floating_point():
            checks.finite(checks.tensor(values, "X"), "X")
            if floating:
                checks.precision(values, floating)
        if isinstance(X, Tensor) and (X.ndim < 2 or len(X) == 0):
            raise ValueError(
                f"X must have shape [N, …] with at least {FEWEST_ROWS} rows, got {list(X.shape)}; pass some of the "
                "inputs that the network was trained on"
            )


def check_network(network: nn.Module, X: Rows, select: Select | None) -> None:
    """Refuses a network whose outputs are not a function of each row by itself."""
    first, again = (run(network, X, None, select).outputs for _ in range(2))
    if not torch.isfinite(first).all():
        raise ValueError(
            "the network's outputs must be finite, got NaN or infinity among those of the first rows of X; look for "
            "inputs that are not scaled as in training, or train it again"
        )
    if not torch.equal(first, again):
        raise ValueError(
            "the network must give the same outputs twice, got others the second time, by up to "
            f"{(first - again).abs().max().item():.3g}; switch off what is random in evaluation mode, such as dropout "
            "that is called as a function without training=self.training"
        )
    alone = torch.cat([run(network, X[i : i + 1], None, select).outputs for i in range(min(3, len(X)))])
    difference = (alone - first[: len(alone)]).abs().max().item()
    if difference > TOLERANCE * first.abs().max().clamp_min(torch.finfo(first.dtype).tiny).item():
        raise ValueError(
            "the network must give a row the same outputs whatever the rows beside it are, got a difference of "
            f"{difference:.3g} for rows that came alone; switch off statistics of the batch in evaluation mode"
        )
