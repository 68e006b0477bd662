"""Where a teacher is asked: at the rows, between neighbours, around rows, and away from all of them."""

from math import log10

import torch
from jaxtyping import Float
from torch import Tensor

NEIGHBOURS = 5
ASIDE = 0.1  # of the rows
MOST_ASIDE = 200
NEAREST, FARTHEST = 4.0, 100.0  # multiples of the distance from the centre: how far most go, and some


def set_aside(num_rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows to learn from, and others to be judged by."""
    order = torch.randperm(num_rows, generator=generator)
    aside = min(MOST_ASIDE, max(1, round(ASIDE * num_rows)))
    return order[aside:], order[:aside]


def places(X: Float[Tensor, "N D"], number: int, generator: torch.Generator) -> Float[Tensor, "Q D"]:
    """Where a teacher is asked: a third of the places are rows, or near one, and a third lie outside of the data."""
    number = max(number, 6)
    at = X[_some(len(X), min(len(X), number // 3), generator)]
    rest = number - len(at)
    parts = [at, between(X, rest // 3, generator), around(X, rest - rest // 3 - rest // 2, 1.0, generator)]
    away = rest // 2
    parts += [
        dilated(X, away - away // 4, 1.0, NEAREST, generator),
        dilated(X, away // 4, NEAREST, FARTHEST, generator),
    ]
    return torch.cat(parts)


def between(X: Float[Tensor, "N D"], number: int, generator: torch.Generator) -> Float[Tensor, "Q D"]:
    """On the line from a row to one of its neighbours."""
    rows = X[_some(len(X), number, generator)]
    near = min(NEIGHBOURS, len(X) - 1)
    if near == 0:
        return rows
    spread = X.std(0, correction=0).clamp_min(1e-12)
    found = [torch.cdist(part / spread, X / spread).topk(near + 1, largest=False).indices for part in rows.split(1_024)]
    which = torch.randint(1, near + 1, (number, 1), generator=generator).to(X.device)
    others = X[torch.cat(found).gather(1, which)[:, 0]]
    return rows + _uniform(number, 0.0, 1.0, X, generator) * (others - rows)


def around(X: Float[Tensor, "N D"], number: int, largest: float, generator: torch.Generator) -> Float[Tensor, "Q D"]:
    """Rows with noise, of up to a part of their spread, and down to a tenth of that."""
    rows = X[_some(len(X), number, generator)]
    size = largest * 10 ** _uniform(number, -1.0, 0.0, X, generator)
    noise = torch.randn(rows.shape, generator=generator, dtype=X.dtype).to(X.device)
    return rows + size * X.std(0, correction=0) * noise


def dilated(
    X: Float[Tensor, "N D"], number: int, nearest: float, farthest: float, generator: torch.Generator
) -> Float[Tensor, "Q D"]:
    """Rows as many times as far from the centre, log-uniformly."""
    centre = X.mean(0)
    times = 10 ** _uniform(number, log10(nearest), log10(farthest), X, generator)
    return centre + times * (X[_some(len(X), number, generator)] - centre)


def _some(num_rows: int, number: int, generator: torch.Generator) -> Tensor:
    """Rows: each as often as any other, or once more."""
    rounds = -(-number // num_rows)
    return torch.cat([torch.randperm(num_rows, generator=generator) for _ in range(max(1, rounds))])[:number]


def _uniform(number: int, low: float, high: float, like: Tensor, generator: torch.Generator) -> Float[Tensor, "Q 1"]:
    return (low + (high - low) * torch.rand(number, 1, generator=generator, dtype=like.dtype)).to(like.device)
