"""What a step does while its operations are being recorded: none may look at a value.

Where a value decides how a step goes on, it is asked for here. While a step is recorded, the answers are those that it
was given before, and what was asked for is kept, so that whoever replays the recording can look afterwards whether the
answers would still be the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from jaxtyping import Float, Num
from torch import Tensor


@dataclass
class Trace:
    """A step that is being recorded.

    Attributes:
        answers: What `exceeds` answers, in the order in which it is called.
        asked: What it was called with, each relative to its bound.
    """

    answers: tuple[bool, ...]
    asked: list[Float[Tensor, ""]] = field(default_factory=list)


_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)
_answers: ContextVar[list[bool] | None] = ContextVar("answers", default=None)


def tracing() -> Trace | None:
    """The step that is being recorded; None if none is."""
    return _trace.get()


@contextmanager
def traced(answers: tuple[bool, ...]) -> Iterator[Trace]:
    """What runs in this context can be recorded."""
    token = _trace.set(trace := Trace(answers))
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


def exceeds(value: Num[Tensor, ""], bound: float) -> bool:
    """Whether a value is above a bound, or not a number."""
    relative = value / bound
    if (trace := _trace.get()) is not None:
        trace.asked.append(relative)
        return trace.answers[len(trace.asked) - 1]
    answer = is_above(relative.item())
    if (answers := _answers.get()) is not None:
        answers.append(answer)
    return answer


def is_above(relative: float) -> bool:
    """What `exceeds` answers to a value relative to its bound."""
    return not relative <= 1.0
