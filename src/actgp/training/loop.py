"""One stage of training: steps on minibatches until the objective converges or the steps are used up."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from actgp.training.data import Batches
from actgp.training.objectives import Evaluation
from actgp.training.progress import Report
from actgp.training.recipe import Stopped
from actgp.training.schedule import Schedule

PATIENCE_FOR_NONFINITE = 20
WARM_UP = 50  # steps in which rates rise, while Adam has no estimate of its moments yet


class Step(NamedTuple):
    """What a callback is told after each step.

    Attributes:
        stage: "network" or "posterior".
        step: How many steps of the stage are done.
        objective: Of the step's minibatch, in nats for each row of the data.
        rate: The factor that learning rates are multiplied by.
        model: The model, as it is after the step.
    """

    stage: str
    step: int
    objective: float
    rate: float
    model: nn.Module


Callback = Callable[[Step], bool | None]  # True ends the stage


@dataclass
class Stage:
    """A stage, and how far it has come.

    Attributes:
        name: "network" or "posterior".
        evaluate: The loss and the objective of a minibatch.
        optimisers: Step together; each group of parameters keeps its first rate as `initial_lr`.
        schedule: The factor of all rates.
        objectives: The objective at each step so far.
        skipped: Steps that were skipped because something in them was not finite.
        stopped: Why the stage ended; None while it goes on.
    """

    name: str
    evaluate: Callable[[Tensor, Tensor], Evaluation]
    optimisers: list[torch.optim.Optimizer]
    schedule: Schedule
    objectives: list[float] = field(default_factory=list)
    skipped: int = 0
    stopped: Stopped | None = None

    def __post_init__(self) -> None:
        for group in self._groups():
            group.setdefault("initial_lr", group["lr"])

    def run(
        self, model: nn.Module, batches: Batches, report: Report, callback: Callback | None, after: Callable[[], None]
    ) -> None:
        """Steps until the stage has stopped; `after` is called when a step is complete."""
        if self.schedule.num_steps == 0:
            self.stopped = "steps"
        skipped_in_a_row = 0
        while self.stopped is None:
            factor = self._set_rates()
            objective, taken = self._step(batches)
            skipped_in_a_row = 0 if taken else skipped_in_a_row + 1
            if skipped_in_a_row > PATIENCE_FOR_NONFINITE:
                raise ArithmeticError(
                    f"expected a finite objective, got {skipped_in_a_row} steps in a row without one; "
                    "standardise X and y, or lower the learning rates"
                )
            report(objective, factor)
            info = Step(self.name, len(self.objectives), objective, factor, model)
            if callback is not None and callback(info):
                self.stopped = "callback"
            elif self.schedule.converged:
                self.stopped = "converged"
            elif len(self.objectives) >= self.schedule.num_steps:
                self.stopped = "steps"
            after()

    def _set_rates(self) -> float:
        step = len(self.objectives)
        factor = self.schedule.factor(step) * min(1.0, (step + 1) / WARM_UP)
        for group in self._groups():
            group["lr"] = group["initial_lr"] * factor
        return factor

    def _step(self, batches: Batches) -> tuple[float, bool]:
        """The objective of a step, and whether it was finite and taken."""
        for optimiser in self.optimisers:
            optimiser.zero_grad()
        loss, objective = self.evaluate(*batches.next())
        loss.backward()
        gradients = [p.grad for group in self._groups() for p in group["params"] if p.grad is not None]
        finite = bool(torch.isfinite(loss) and torch.isfinite(nn.utils.get_total_norm(gradients)))
        value = objective.item()
        self.objectives.append(value)
        if finite:
            for optimiser in self.optimisers:
                optimiser.step()
            self.schedule.record(value)
        else:
            self.skipped += 1
        return value, finite

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimiser in self.optimisers for group in optimiser.param_groups]
