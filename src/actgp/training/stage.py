"""One stage of training: steps on minibatches until the objective converges or the steps are used up.

All rates have a common factor, which is cut where the objective stays on a plateau, and lowered to zero at the end of
the stage. Everything is counted in steps, since an epoch of a small data set is a handful of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from actgp.training import ranks
from actgp.training.data import Batches
from actgp.training.objectives import Evaluation, check_priors
from actgp.training.progress import Report
from actgp.training.recipe import Stopped

CUT = 0.3
CUTS = 3
PROGRESS = 1e-3  # nats for each row of the data: less is none
PATIENCE_FOR_NONFINITE = 20
VALIDATE_EVERY = 25  # steps between judgements by held-out rows
WARM_UP = 50  # steps in which rates rise, while Adam has no estimate of its moments yet


@dataclass
class Schedule:
    """The factor of all rates, cut on a plateau of the mean objective of windows, each a third of the patience long.

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


class Step(NamedTuple):
    """What a callback is called with after each step.

    Attributes:
        stage: "network", "posterior" or "final".
        step: How many steps of the stage are done.
        objective: Of the step's minibatch, in nats for each row of the data.
        rate: The factor that learning rates are multiplied by.
        model: The model, as it is after the step.
        held_out: The score of the held-out rows when they were last looked at, every 25 steps, in nats for each, the
            higher the better; None where there are none.

    Example:
        >>> import actgp, torch
        >>> def stop_early(step: actgp.Step) -> bool:
        ...     return step.stage == "network" and step.step == 3
        >>> X = torch.randn(50, 2)
        >>> model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=10)
        >>> recipe = actgp.Recipe(network_steps=50, num_steps=0)
        >>> len(actgp.fit(model, X, X.sum(1), recipe, callback=stop_early).network_objectives)
        3
    """

    stage: str
    step: int
    objective: float
    rate: float
    model: nn.Module
    held_out: float | None = None


Callback = Callable[[Step], bool | None]  # True ends the stage


@dataclass
class Stage:
    """A stage, and how far it has come.

    Attributes:
        name: "network", "posterior" or "final".
        model: What is trained.
        evaluate: The loss and the objective of a minibatch.
        optimisers: Step together; each group of parameters keeps its first rate as `initial_lr`.
        schedule: The factor of all rates.
        monitor: The score of held-out rows, the higher the better; None where there are none.
        memory: The length, in steps, of the exponential moving average of parameters that the stage is scored with and
            ends with: the noise of minibatches and paths averages out. 0 for the parameters themselves.
        early_stopping: the stage ends when the score has not improved for so many times `schedule.patience`
            steps; None if it never does.
        objectives: The objective at each step so far.
        skipped: Steps that were skipped because something in them was not finite.
        stopped: Why the stage ended; None while it goes on.
        score: What the monitor saw last; None before that.
        best_score: The highest that it has seen.
        best_step: After which step.
        best: The parameters then.
        average: The exponential moving average of each parameter.
    """

    name: str
    model: nn.Module
    evaluate: Callable[[Tensor, Tensor], Evaluation]
    optimisers: list[torch.optim.Optimizer]
    schedule: Schedule
    monitor: Callable[[], float] | None = None
    memory: int = 0
    early_stopping: int | None = 2
    objectives: list[float] = field(default_factory=list)
    skipped: int = 0
    stopped: Stopped | None = None
    score: float | None = None
    best_score: float = -float("inf")
    best_step: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)
    average: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        for group in self._groups():
            group.setdefault("initial_lr", group["lr"])

    def run(self, batches: Batches, report: Report, callback: Callback | None, after: Callable[[], None]) -> None:
        """Steps until the stage has stopped; `after` is called when a step is complete.

        With a monitor the model is scored before the first step, too, so that the stage never ends worse than it began.
        """
        if self.schedule.num_steps == 0:
            self.stopped = "steps"
        elif not self.objectives:
            self._validate()
        skipped_in_a_row = 0
        while self.stopped is None:
            factor = self._set_rates()
            objective, taken = self._step(batches)
            skipped_in_a_row = 0 if taken else skipped_in_a_row + 1
            if skipped_in_a_row > PATIENCE_FOR_NONFINITE:
                check_priors(self.model)
                raise ArithmeticError(
                    f"expected a finite objective, got {skipped_in_a_row} steps in a row without one; "
                    "standardise X and y, or lower the learning rates"
                )
            report(objective, factor)
            info = Step(self.name, len(self.objectives), objective, factor, self.model, self.score)
            self._decide(callback is not None and ranks.any_of(bool(callback(info))))
            after()

    def _decide(self, stop: bool) -> None:
        """Whether the stage ends after this step; if it does, with the best parameters."""
        step, stalled = len(self.objectives), False
        if self.monitor is not None and (step % VALIDATE_EVERY == 0 or step == self.schedule.num_steps):
            self._validate()
            no_better = step - self.best_step
            stalled = self.early_stopping is not None and no_better > self.early_stopping * self.schedule.patience
        if stop:
            self.stopped = "callback"
        elif self.schedule.converged or stalled:
            self.stopped = "converged"
        elif step >= self.schedule.num_steps:
            self.stopped = "steps"
        if self.stopped is not None:
            self._swap()
            if self.best:
                self.model.load_state_dict(self.best)
            self.best, self.average = {}, []

    def _validate(self) -> None:
        if self.monitor is None:
            return
        self._swap()
        self.model.eval()
        ranks.copy_first(self.model.buffers())  # statistics of batches, of which each rank has seen its own
        try:
            self.score = self.monitor()
            if self.score > self.best_score:
                self.best_score, self.best_step = self.score, len(self.objectives)
                self.best = {name: values.detach().clone() for name, values in self.model.state_dict().items()}
        finally:  # an interrupt leaves the parameters of the last step
            train_mode(self.model)
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        """Exchanges the parameters with their averages, where there are any."""
        for p, average in zip(self.parameters(), self.average, strict=False):
            now = p.clone()
            p.copy_(average)
            average.copy_(now)

    @torch.no_grad()
    def _remember(self) -> None:
        """Takes the parameters into their averages; the first steps are forgotten sooner."""
        if self.memory == 0:
            return
        now, step = self.parameters(), len(self.objectives)
        if not self.average:
            self.average = [p.detach().clone() for p in now]
        kept = 1 - max(1 / self.memory, 10 / (10 + step))
        get_ema_multi_avg_fn(kept)(self.average, now, step)

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
        numbers = torch.stack([loss.detach(), objective.to(loss)])
        ranks.average_([*gradients, numbers])
        finite = bool(torch.isfinite(numbers[0]) and torch.isfinite(nn.utils.get_total_norm(gradients)))
        value = numbers[1].item()
        self.objectives.append(value)
        if finite:
            for optimiser in self.optimisers:
                optimiser.step()
            self.schedule.record(value)
            self._remember()
        else:
            self.skipped += 1
        return value, finite

    def parameters(self) -> list[nn.Parameter]:
        """What is trained, in the order of the averages."""
        return [p for group in self._groups() for p in group["params"]]

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimiser in self.optimisers for group in optimiser.param_groups]


def is_frozen(module: nn.Module | None) -> bool:
    """Whether a module has parameters, and none that is trained."""
    parameters = [] if module is None else list(module.parameters())
    return bool(parameters) and not any(p.requires_grad for p in parameters)


def train_mode(model: nn.Module) -> None:
    """Training mode for all but frozen parts, which neither drop units nor count batches into their statistics."""
    model.train()
    for part in model.modules():
        if is_frozen(part):
            part.eval()
