"""Whether operations are being traced, to be compiled: then none may look at a value."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Decisions:
    """What values decide, looked at before tracing.

    Attributes:
        exact: Whether Kuf is in float64 whatever the precision of the model.
        without_points: Layers, by their id, whose inducing points have no means and take no part in the network.
    """

    exact: bool
    without_points: frozenset[int] = frozenset()


_decisions: ContextVar[Decisions | None] = ContextVar("decisions", default=None)


def tracing() -> Decisions | None:
    """What was decided before tracing; None if nothing is being traced."""
    return _decisions.get()


@contextmanager
def traced(decisions: Decisions) -> Iterator[None]:
    """What runs in this context can be traced."""
    token = _decisions.set(decisions)
    try:
        yield
    finally:
        _decisions.reset(token)
