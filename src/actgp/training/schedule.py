"""The factor of all rates: cut where the objective stays on a plateau, and lowered to zero at the end of a stage.

Everything is counted in steps, since an epoch of a small data set is a handful of them.
"""

from dataclasses import dataclass, field

CUT = 0.3
CUTS = 3
PROGRESS = 1e-3  # nats for each row of the data: less is none


@dataclass
class Schedule:
    """Judges the mean objective of windows of steps; a window is a third of the patience.

    Attributes:
        num_steps: Of the stage.
        patience: Steps without progress after which rates are cut.
        decay: The last part of the stage, in which rates go down to zero.
        best: The best window so far.
        waited: Windows since.
        cuts: How often rates were cut.
        window: The objectives of the present window.
    """

    num_steps: int
    patience: int
    decay: float = 0.3
    best: float = -float("inf")
    waited: int = 0
    cuts: int = 0
    window: list[float] = field(default_factory=list)

    def factor(self, step: int) -> float:
        """What rates are multiplied by at a step, counted from zero."""
        left = (self.num_steps - step) / (self.decay * self.num_steps)
        return CUT**self.cuts * min(1.0, left)

    @property
    def converged(self) -> bool:
        """Whether rates were cut to little and there is no progress any more."""
        return self.cuts > CUTS

    def record(self, objective: float) -> None:
        """Takes note of a step's objective."""
        self.window.append(objective)
        if len(self.window) < max(1, self.patience // 3):
            return
        mean = sum(self.window) / len(self.window)
        self.window = []
        if mean > self.best + PROGRESS:
            self.best, self.waited = mean, 0
            return
        self.waited += 1
        if self.waited >= 3:
            self.cuts, self.waited = self.cuts + 1, 0
