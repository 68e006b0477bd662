"""Whether targets have a long tail, whose logarithm is better predicted: found on the rows of `fit`.

It is considered where the tail is long by itself: where a normal distribution fits T(y) much better than y. Then an
exact GP of some rows says of each what it would be predicted to be without it, for y and for each T; the densities,
those of T(y) times T′(y), decide. T(y) = y stays unless another is clearly better, and where columns say what y is but
for a hundredth of its variance: then errors have no tail, and the largest ones in the units of y count.
"""

from math import sqrt
from typing import NamedTuple

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from actgp.distil import LongTail, log_slope, shortened
from actgp.tables.members import gp_member, gp_prior
from actgp.tables.targets import Targets

FEWEST_ROWS, MOST_ROWS = 50, 400  # that are looked at
# Nats a row that a normal distribution of T(y) must be better than one of y: with less, means lose what densities gain.
LONG = 0.25
BETTER, ERRORS = 0.05, 3.0  # nats a row that left-out densities must be better, and how many standard errors
NOISY = 0.01  # of the variance of y, that is left unexplained
SOFTNESS = (1.0, 0.1)  # a, of the distance from the end of the targets to their median
GP = "Matérn GP"
SEED = 0


def long_tail_of(X: Float64[Tensor, "N D"], y: Float64[Tensor, "N P"]) -> LongTail:
    """T for each target.

    Args:
        X: Rows, standardised.
        y: Their targets.
    """
    generator = torch.Generator().manual_seed(SEED)
    rows = torch.randperm(len(y), generator=generator)[:MOST_ROWS]
    return LongTail.joined([_of_one(X, column, rows) for column in y.split(1, dim=1)])


def _of_one(X: Float64[Tensor, "N D"], y: Float64[Tensor, "N 1"], rows: Int64[Tensor, " n"]) -> LongTail:
    none = LongTail.none(1)
    if len(y) < FEWEST_ROWS:
        return none
    found = [tail for tail in candidates(y) if gain(y, tail) > LONG]
    if not found:
        return none
    usual, error = _left_out(X, y, none, rows)
    if error < NOISY:
        return none
    best, most = none, BETTER
    for tail in found:
        better = _left_out(X, y, tail, rows).densities - usual
        uncertain = better.std().item() / sqrt(len(better))
        if (mean := better.mean().item()) > max(most, ERRORS * uncertain):
            best, most = tail, mean
    return best


def candidates(y: Float64[Tensor, "N 1"]) -> list[LongTail]:
    """Logarithms of y, if it is positive, and of y plus a constant; of −y, where the tail is on the left."""
    middle = y.median()
    sign = 1.0 if y.max() - middle >= middle - y.min() else -1.0
    u = sign * y
    start, length = u.min().item(), (u.max() - u.min()).item()
    reach = (u.median() - u.min()).item()
    softness = [part * reach for part in SOFTNESS] + [start]  # with a = b, T(y) is log y but for a constant
    return [LongTail(torch.tensor([[sign], [start], [a], [length]], dtype=y.dtype)) for a in softness if a > 0]


def gain(y: Float64[Tensor, "N 1"], tail: LongTail) -> float:
    """How much more probable y is, a row, if T(y) is normal, than if y is."""
    t = shortened(y, tail.values)
    return (log_slope(y, tail.values).mean() + y.std().log() - t.std().log()).item()


class LeftOut(NamedTuple):
    """Rows as the others predict them: the log density of each y, and the part of the variance of T(y) that is left."""

    densities: Float64[Tensor, " n"]
    error: float


def _left_out(X: Float64[Tensor, "N D"], y: Float64[Tensor, "N 1"], tail: LongTail, rows: Tensor) -> LeftOut:
    t = shortened(y[rows], tail.values)
    sd = t.std().clamp_min(torch.finfo(t.dtype).tiny)
    h, targets = X[rows], Targets((t - t.mean()) / sd)
    prior = gp_prior(GP, h, targets, torch.Generator().manual_seed(SEED))
    member = gp_member(prior, h, targets, torch.arange(len(h)))
    return LeftOut(member.densities - sd.log() + log_slope(y[rows], tail.values).squeeze(1), member.error)
