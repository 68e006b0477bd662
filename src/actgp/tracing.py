"""What a step does while its operations are being recorded: none may look at a value.

Where a value decides how a step goes on, it is asked for here. While a step is recorded, the answers are those that it
was given before, and what was asked for is kept, so that whoever replays the recording can look afterwards whether the
answers would still be the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Decisions:
    """What values decide.

    Attributes:
        answers: Of `exceeds`, in the order in which it is called.
        without_points: Layers, by their id, whose inducing points have no means and take no part in the network.
    """

    answers: tuple[bool, ...] = ()
    without_points: frozenset[int] = frozenset()


@dataclass
class Trace:
    """A step that is being recorded.

    Attributes:
        decisions: What was decided before.
        asked: What was asked for, each relative to its bound.
    """

    decisions: Decisions
    asked: list[Float[Tensor, ""]] = field(default_factory=list)


_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)
_answers: ContextVar[list[bool] | None] = ContextVar("answers", default=None)


def tracing() -> Trace | None:
    """The step that is being recorded; None if none is."""
    return _trace.get()


@contextmanager
def traced(decisions: Decisions) -> Iterator[Trace]:
    """What runs in this context can be recorded."""
    token = _trace.set(trace := Trace(decisions))
    try:
        yield trace
    finally:
        _trace.reset(token)


@contextmanager
def listening() -> Iterator[list[bool]]:
    """The answers that what runs in this context is given."""
    answers: list[bool] = []
    token = _answers.set(answers)
    try:
        yield answers
    finally:
        _answers.reset(token)


def exceeds(value: Float[Tensor, ""], bound: float) -> bool:
    """Whether a value is above a bound, or not a number."""
    if (trace := _trace.get()) is not None:
        trace.asked.append(value / bound)
        return trace.decisions.answers[len(trace.asked) - 1]
    answer = not value.item() <= bound
    if (answers := _answers.get()) is not None:
        answers.append(answer)
    return answer
