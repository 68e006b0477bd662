"""How much of a time budget is left."""

import time


class Clock:
    """Runs from its construction.

    Args:
        budget: Seconds; None for as many as it takes.
    """

    def __init__(self, budget: float | None) -> None:
        self.budget = float("inf") if budget is None else budget
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._start

    @property
    def left(self) -> float:
        """Seconds; negative once they are used up."""
        return self.budget - self.seconds
