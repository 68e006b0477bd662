"""How faithful a student is: what it says of rows that it has not learnt from, beside what its teacher says of them."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.distil.learn import draw
from actgp.distil.outputs import Classes, Normals, mixture_log_prob, normal_cdf
from actgp.distil.teacher import Answers, Labels, Values
from actgp.persistence import savable

LEVEL = 0.95
DIVERGENCE, COVERAGE, NEAR, FAR = 0.02, 0.01, 0.9, 0.8  # what is good enough
ROUNDS = 8  # of draws
TINY = 1e-12


class FidelityWarning(UserWarning):
    """A student that is not faithful enough to its teacher.

    Example:
        >>> import actgp, warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", actgp.FidelityWarning)  # refuse such students
    """


@savable
@dataclass(frozen=True)
class FidelityReport:
    """A student beside its teacher, at rows that were kept aside.

    Attributes:
        rows: How many places were compared.
        divergence: KL(teacher ‖ student), nats: how much higher the student's NLPD is, should the teacher be right.
        coverage: The probability that the teacher gives to the student's 95 % intervals, minus 0.95; for classes, the
            student's mean confidence minus the teacher's.
        near: The rank correlation of their epistemic standard deviations; for classes, of the sums of their squares.
        far: The same at twice the distance from the centre of the data.
        seconds: What distilling took.

    Example:
        >>> import actgp, torch
        >>> X = torch.linspace(-2, 2, 100)[:, None]
        >>> model = actgp.deep_gp(input_dim=1, num_layers=1, num_inducing=10)
        >>> report = actgp.distill(model, X, num_places=200, num_steps=100).report
        >>> report.divergence < 0.1
        True
    """

    rows: int
    divergence: float
    coverage: float
    near: float
    far: float
    seconds: float

    @property
    def weak(self) -> tuple[str, ...]:
        """What is not good enough, in words; nothing if all is."""
        found = []
        if not self.divergence <= DIVERGENCE:
            found.append(f"NLPD higher by {self.divergence:.3f} nats, more than {DIVERGENCE}")
        if not abs(self.coverage) <= COVERAGE:
            found.append(f"coverage off by {100 * self.coverage:+.1f} points, more than {100 * COVERAGE:.0f}")
        for value, least, place in ((self.near, NEAR, "near the data"), (self.far, FAR, "at twice their radius")):
            if not value >= least:
                found.append(f"rank correlation of epistemic deviations {value:.2f} {place}, less than {least}")
        return tuple(found)

    def __str__(self) -> str:
        lines = [
            f"a student beside its teacher, at {self.rows} places that it did not learn from; {self.seconds:.1f} s",
            f"  NLPD, expected            {self.divergence:+.4f} nats",
            f"  coverage of 95 %          {100 * self.coverage:+.2f} points",
            f"  epistemic ranks, near     {self.near:.3f}",
            f"  epistemic ranks, far      {self.far:.3f}",
        ]
        lines += [f"  NOT GOOD ENOUGH: {weakness}" for weakness in self.weak] or ["  good enough everywhere"]
        return "\n".join(lines)


def compared(student: Normals | Classes, teacher: Answers, generator: torch.Generator) -> tuple[float, float, float]:
    """The divergence, the difference in coverage, and the rank correlation."""
    if isinstance(student, Classes) and isinstance(teacher, Labels):
        p, q = teacher.probabilities, student.probabilities
        divergence = (p * (p.clamp_min(TINY) / q.clamp_min(TINY)).log()).sum(1).mean()
        confidence = q.amax(1).mean() - p.amax(1).mean()
        totals = (values.sum(1, keepdim=True) for values in (student.epistemic_std.square(), teacher.spread))
        return divergence.item(), confidence.item(), rank_correlation(*totals)
    assert isinstance(student, Normals)
    assert isinstance(teacher, Values)
    shape = teacher.epistemic.shape
    mixture = [values.reshape(-1, *shape) for values in student[3:]]
    divergence = torch.zeros(())
    for _ in range(ROUNDS):
        y, weights = draw(teacher, generator)
        own = torch.stack([mixture_log_prob(each, *mixture) for each in y])
        divergence += (weights * (teacher.log_prob(y) - own)).sum(0).mean() / ROUNDS
    lower, upper = (end.reshape(shape) for end in student.interval(LEVEL))
    inside = (teacher.weights * (_below(upper, teacher) - _below(lower, teacher))).sum(0)
    ranks = rank_correlation(student.epistemic_std.reshape(shape), teacher.epistemic)
    return divergence.item(), inside.mean().item() - LEVEL, ranks


def _below(y: Float[Tensor, "N P"], teacher: Values) -> Float[Tensor, "K N P"]:
    return normal_cdf((y - teacher.means) / teacher.variances.sqrt())


def rank_correlation(a: Float[Tensor, "N P"], b: Float[Tensor, "N P"]) -> float:
    """Spearman's, a mean over outputs."""
    ranks = (values.double().argsort(0).argsort(0).double() for values in (a, b))
    first, second = (r - r.mean(0) for r in ranks)
    spread = (first.square().sum(0) * second.square().sum(0)).sqrt().clamp_min(TINY)
    return ((first * second).sum(0) / spread).mean().item()
