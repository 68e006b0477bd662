"""The default for a table: several models, each of which is the best for some tables, mixed by what they are worth.

- Two GPs of one layer on the inputs, an arc-cosine and a Matérn kernel: exact on small tables, and best there.
- Networks that are cross-fitted, and around them a GP: of one layer on small tables and for labels, else of two.

Weights come from rows that a member has not seen: left out in closed form, or held out of training.
"""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from actgp import checks
from actgp.models import Mixture, Networks
from actgp.tables.clock import Clock
from actgp.tables.cross_fit import CrossFit, cross_fit
from actgp.tables.members import Division, Member, Prior, deep_member, divided, gp_member, gp_prior, whole_member
from actgp.tables.stacking import stacking_weights
from actgp.tables.targets import Targets
from actgp.training import ranks
from actgp.training.progress import progress_bar

Effort = Literal["fast", "balanced", "best"]
Stopped = Literal["steps", "time budget", "interrupt"]

FEW_ROWS = 5_000  # that GPs of one layer are fitted to, to see whether they count for anything
MOST_ROWS = 50_000  # that they are fitted to if they do: they hold all of their covariances with the points
FEWEST_FOR_NETWORKS = 30  # rows
FEWEST_FOR_DEEP = 2_000
HOPELESS = 4.0  # times the mean squared error of the better GP, from which on nothing is put around networks
HOPELESS_LABELS = 1.5  # times its negative log density
TYPICAL_ROWS, GROWTH = 2_000, 0.75  # of steps, with rows
LARGEST_MEAN, LARGEST_SPREAD = 2.0, 10.0  # of columns that are taken for standardised
PART_OF_NETWORKS = 0.6  # of what is left of a time budget, where a deep member follows
PART_OF_STEPS = 0.7  # of what is left after them, for the steps of that


class Plan(NamedTuple):
    """What an effort pays for.

    Attributes:
        networks: K, on few rows and on many.
        network_steps: On 2,000 rows; on others in proportion to their number to the power of .75, but from .4 to 2.8
            times as many.
        deep_steps: Of the deep GP around networks, likewise, to 1.5 times; 0 for a single layer on tables of any size.
        whole: Whether a deep GP that is trained from its first layer to its last is a member, too.
        evidence_rows: Of which the evidence of a GP of one layer is taken.
    """

    networks: tuple[int, int]
    network_steps: int
    deep_steps: int
    whole: bool
    evidence_rows: int = 800


PLANS: dict[Effort, Plan] = {
    "fast": Plan((3, 2), 500, 150, False, 400),
    "balanced": Plan((5, 3), 1_450, 800, False),
    "best": Plan((10, 5), 4_000, 2_000, True),
}


@dataclass(frozen=True)
class TableFit:
    """What was fitted.

    Attributes:
        weights: Of each member, by name.
        scores: The mean log density of left-out rows, of each member by itself and of the mixture.
        num_judged: How many rows weights were chosen by.
        stopped: What ended it: its steps were used up, or the time budget was, or it was interrupted.
        seconds: How long it took.

    Example:
        >>> import actgp, torch
        >>> X = torch.randn(40, 2)
        >>> model, report = actgp.fit_table(X, X[:, 0].sin(), effort="fast")
        >>> abs(sum(report.weights.values()) - 1) < 1e-6
        True
    """

    weights: dict[str, float]
    scores: dict[str, float]
    num_judged: int
    stopped: Stopped = "steps"
    seconds: float = field(default=0.0, compare=False)


def fit_table(
    X: Float[Tensor, "N D"],
    y: Tensor,
    *,
    effort: Effort = "balanced",
    time_budget: float | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> tuple[Mixture, TableFit]:
    """Fits the members, and mixes them, in double precision.

    An interrupt (Ctrl-C) ends it with what has been fitted so far, if that is anything.

    Args:
        X: Inputs, each column standardised.
        y: Targets, [N] or [N, P], likewise; or labels 0 … C − 1, integers [N].
        effort: How much time is spent.
        time_budget: Seconds that it may take at most; what is fitted first, GPs of one layer, is fitted in any case.
        generator: Source of all randomness; torch's global one by default.
        progress: Whether to show a progress bar, on a terminal.

    Returns:
        The mixture, in double precision, and the weights and scores of its members.

    Example:
        >>> import actgp, torch
        >>> X = torch.randn(60, 2)
        >>> model, report = actgp.fit_table(X, X[:, 0].sin(), effort="fast")
        >>> lower, upper = model.predict(X.double()).interval(0.9)
    """
    ranks.check_alone("fit_table")
    X, targets = _standardised(X, "X"), _targets(y)
    if len(X) != len(targets) or len(X) < 2:
        raise ValueError(f"X and y must have the same two or more rows, got {len(X)} and {len(targets)}; align them")
    if generator is None:
        generator = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
    plan = PLANS[checks.choice(effort, "effort", tuple(PLANS))]
    clock = Clock(None if time_budget is None else checks.positive(time_budget, "time_budget"))
    run = Run(X, targets, plan, clock, generator, progress)
    stopped: Stopped = "steps"
    try:
        run.fit()
    except KeyboardInterrupt:
        if not run.plain:
            raise
        warnings.warn("interrupted; the model is mixed of what had been fitted by then", stacklevel=2)
        stopped = "interrupt"
    if stopped == "steps" and run.is_cut_short:
        stopped = "time budget"
    judged, weights = run.judged(), run.weights()
    model = _mixture(run.plain, run.around, weights, None if run.crossed is None else run.crossed.networks)
    scores = dict(zip((m.name for m in run.members), judged.mean(0).tolist(), strict=True))
    scores["mixture"] = (judged + weights.log()).logsumexp(1).mean().item()
    shares = dict(zip(scores, weights.tolist(), strict=False))
    return model, TableFit(shares, scores, len(judged), stopped, clock.seconds)


class Run:
    """The members as they come.

    Args:
        X: Inputs.
        y: Targets.
        plan: What is fitted.
        clock: What time there is.
        generator: Source of all randomness.
        progress: Whether to show progress bars.

    Attributes:
        priors: Of GPs on the inputs.
        plain: Members that are given the inputs, those GPs first.
        around: Members around networks.
        crossed: The networks.
        is_cut_short: Whether there would have been more to do, had there been time.
    """

    def __init__(
        self, X: Tensor, y: Targets, plan: Plan, clock: Clock, generator: torch.Generator, progress: bool
    ) -> None:
        self.X, self.y, self.plan, self.clock = X, y, plan, clock
        self.generator, self.progress = generator, progress
        self.priors: list[Prior] = []
        self.plain: list[Member] = []
        self.around: list[Member] = []
        self.crossed: CrossFit | None = None
        self.is_cut_short = False

    @property
    def members(self) -> list[Member]:
        """All of them."""
        return [*self.plain, *self.around]

    def judged(self) -> Tensor:
        """Log densities under each member of the rows that none has seen, [n, M]."""
        densities = torch.stack([member.densities for member in self.members], dim=1)
        return densities[~densities.isnan().any(1)]

    def weights(self) -> Tensor:
        """What members count for."""
        return stacking_weights(self.judged())

    def fit(self) -> None:
        """Fits one after the other; GPs on the inputs to few rows at first, and to all if they count for something."""
        N = len(self.X)
        order = torch.randperm(N, generator=self.generator) if N > FEW_ROWS else torch.arange(N)
        few, rows = order[:FEW_ROWS], order[:MOST_ROWS]
        for name in ("arc-cosine GP", "Matérn GP"):
            if self.plain and self.clock.left < self.clock.seconds:  # another one takes as long
                self.is_cut_short = True
                break
            self.priors.append(self._prior(name, self.X[few], self.y[few]))
            self.plain.append(gp_member(self.priors[-1], self.X, self.y, few))
        each = self.clock.seconds / len(self.plain)
        if FEWEST_FOR_NETWORKS <= N:
            if self.clock.left < 2 * each:
                self.is_cut_short = True
            else:
                self._fit_networks(few, rows, each)
        if len(few) < len(rows):
            self._fit_again(rows, each * len(rows) / len(few))

    def _fit_networks(self, few: Tensor, rows: Tensor, each: float) -> None:
        """Networks, what is put around them, and what is trained as they are; `each` second goes to a GP."""
        N = len(self.X)
        deep = self.plan.deep_steps > 0 and N >= FEWEST_FOR_DEEP and self.y.num_classes is None
        crossed = self._crossed(PART_OF_NETWORKS * self.clock.left if deep else self.clock.left - each)
        division = divided(N, few, self.generator) if deep or self.plan.whole else None
        if self._is_hopeful(crossed):
            self._put_around(crossed, rows, division if deep else None)
        if division is not None and self.plan.whole and self.clock.left > 0:
            self.plain.append(whole_member(self.X, self.y, division, self._is_over(), self.generator, self.progress))

    def _fit_again(self, rows: Tensor, each: float) -> None:
        """GPs that count for something, to more rows, if there is the time: `each` takes so long at most."""
        for i, weight in enumerate(self.weights()[: len(self.priors)].tolist()):
            if weight > 0 and self.clock.left < each:
                self.is_cut_short = True
            elif weight > 0:
                self.plain[i] = gp_member(self.priors[i], self.X, self.y, rows)

    def _prior(self, name: str, h: Tensor, y: Targets, carried: int = 0) -> Prior:
        return gp_prior(name, h, y, self.generator, carried=carried, evidence_rows=self.plan.evidence_rows)

    def _crossed(self, seconds: float) -> CrossFit:
        """Networks, as many as there are folds of ten rows or more, in so many seconds."""
        N, clock = len(self.X), Clock(seconds)
        networks = self.plan.networks[N > FEW_ROWS]
        steps = _steps(self.plan.network_steps, N, 2.8)
        bar = progress_bar("fit table: networks", steps) if self.progress else nullcontext(lambda _: None)
        with bar as report:
            crossed = cross_fit(self.X, self.y.task(), min(networks, N // 10), steps, clock, self.generator, report)
        self.is_cut_short |= crossed.is_cut_short
        return crossed

    def _is_hopeful(self, crossed: CrossFit) -> bool:
        """Whether the networks are not far behind the better GP."""
        far = HOPELESS if self.y.num_classes is None else HOPELESS_LABELS
        return crossed.error <= far * min(member.error for member in self.plain)

    def _put_around(self, crossed: CrossFit, rows: Tensor, division: Division | None) -> None:
        """A GP of one layer; or a deep one, by a division of the rows."""
        h = torch.cat([self.X, crossed.left_out.double()], dim=1)
        if division is None:
            prior = self._prior("GP around networks", h[rows], self.y[rows], self.y.num_outputs)
            member = gp_member(prior, h, self.y, rows)
        else:
            steps = _steps(self.plan.deep_steps, len(h), 1.5)
            member = deep_member(h, self.y, division, steps, self._is_over(), self.generator, self.progress)
        self.crossed, self.around = crossed, [member]

    def _is_over(self) -> Callable[[Any], bool]:
        """A callback that ends training in time for what follows its steps."""
        clock = Clock(PART_OF_STEPS * self.clock.left)

        def over(_: Any) -> bool:
            self.is_cut_short |= clock.left < 0
            return clock.left < 0

        return over


def _targets(y: Tensor) -> Targets:
    """Integers are labels, all else is real."""
    if not isinstance(y, Tensor) or y.is_floating_point() or y.is_complex():
        return Targets(_standardised(y, "y"))
    labels = y.long()
    if labels.ndim != 1 or len(labels) == 0 or int(labels.min()) < 0 or int(labels.max()) < 1:
        raise ValueError(
            "labels must be integers 0 … C − 1, one for each row, of two or more classes, got shape "
            f"{list(labels.shape)} and values {labels.unique()[:5].tolist()}; relabel, or pass real targets as floats"
        )
    return Targets.of_labels(labels)


def _standardised(values: Tensor, name: str) -> Float64[Tensor, "N D"]:
    """Columns in double precision, which are of about zero mean and unit spread, or constant."""
    columns = checks.finite(checks.tensor(values, name), name).detach().double()
    columns = columns.unsqueeze(1) if columns.ndim == 1 else columns
    if columns.ndim != 2:
        raise ValueError(f"{name} must be a matrix, one row for each case, got shape {list(values.shape)}; flatten it")
    mean, sd = columns.mean(0), columns.std(0, correction=0)
    if (mean.abs() > LARGEST_MEAN).any() or (sd > LARGEST_SPREAD).any() or ((sd < 1 / LARGEST_SPREAD) & (sd > 0)).any():
        i = int(torch.maximum(mean.abs(), (sd + 1e-300).log().abs()).argmax())
        raise ValueError(
            f"columns of {name} must be standardised, got one with mean {mean[i]:.3g} and standard deviation "
            f"{sd[i]:.3g}; subtract means and divide by standard deviations, or use actgp.DGPRegressor, which does"
        )
    return columns


def _mixture(plain: list[Member], around: list[Member], weights: Tensor, networks: Networks | None) -> Mixture:
    """Of the members that count for something."""
    counts = (weights > 0).tolist()
    given_inputs = [m.model for m, counted in zip(plain, counts, strict=False) if counted]
    behind = [m.model for m, counted in zip(around, counts[len(plain) :], strict=True) if counted]
    own = networks.double() if behind and networks is not None else None
    return Mixture(given_inputs, behind, weights[weights > 0], own).eval()


def _steps(steps: int, N: int, most: float) -> int:
    """More on larger tables, up to `most` times as many, and fewer on smaller ones."""
    return round(steps * min(most, max(0.4, (N / TYPICAL_ROWS) ** GROWTH)))
