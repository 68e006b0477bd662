"""Rows made unlike the data in ways that any input allows, whatever it means: entries swapped, rows blended.

    swapped   each entry, such as a pixel, a column or a token, is with probability p that of another row
    blended   x + w (x' − x), x' another row: towards it for w > 0, away from it for w < 0; real numbers only

A row keeps its label. Blended to .4 with a row of another class, or with a fifth of its entries swapped, it still is
what it was, more or less; with half of them swapped it hardly is. Errors that a network makes on such rows say how far
to believe it there.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Generator, Tensor

from actgp.several import Inputs, Rows, parts_of_inputs

SWAPPED = (0.05, 0.2, 0.5)
BLENDED = (0.1, 0.2, 0.4, -0.25, -0.5)


def perturbed(X: Rows, generator: Generator) -> Iterator[Rows]:
    """All rows, once for each perturbation that changes any of their parts."""
    for p in SWAPPED:
        yield _each(X, partial(_swapped, p=p, generator=generator))
    if any(values.is_floating_point() for values in parts_of_inputs(X)):
        for w in BLENDED:
            other = torch.randperm(len(X), generator=generator)  # the same row for all parts
            yield _each(X, partial(_blended, w=w, other=other))


def _each(X: Rows, change: Callable[[Tensor], Tensor]) -> Rows:
    if isinstance(X, Inputs):
        return Inputs(tuple(map(change, X.tensors)), X.names)
    return change(X)


def _swapped(values: Tensor, p: float, generator: Generator) -> Tensor:
    flat = values.reshape(len(values), -1)
    rows = torch.randint(len(flat), flat.shape, generator=generator).to(values.device)
    chosen = (torch.rand(flat.shape, generator=generator) < p).to(values.device)
    return torch.where(chosen, flat.gather(0, rows), flat).view_as(values)


def _blended(values: Tensor, w: float, other: Tensor) -> Tensor:
    if not values.is_floating_point():
        return values
    return values + w * (values[other.to(values.device)] - values)
