"""How the head of a student learns: from what its teacher says, not from targets.

    loss = −E_{y ~ teacher}[log student(y)] + D(epistemic) + D(aleatoric),     D(v) = ½ (log v + v_teacher / v)

The first is KL(teacher ‖ student) but for a constant; what y cannot tell, which part of its variance is of not knowing
f, the others add: they are Kullback–Leibler divergences of normals that differ in their variance. For classes it is the
cross-entropy of the probabilities, and D of their variances.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.distil.heads import ClassHead, SmallNetwork, ValueHead
from actgp.distil.outputs import Classes, Normals, mixture_log_prob
from actgp.distil.teacher import Labels, Values
from actgp.distil.trunk import Along

DRAWS = 8  # of y, and as many on the other side of their normal's mean
BATCH = 512
RATE = 1e-2
MEAN_RATE, MEAN_BETAS = 3e-2, (0.9, 0.99)
MOST = 100.0  # times as much, or as little, as most places, may one count
TINY = 1e-12


class Draws(NamedTuple):
    """Values of y, and what each counts: normals of little weight are drawn more often than their weight says."""

    y: Float[Tensor, "Q N P"]
    weights: Float[Tensor, "Q N 1"]


def draw(values: Values, generator: torch.Generator) -> Draws:
    """From each row's mixture: a normal ∝ √w_k, and two values as far to either side of its mean."""
    K, N, _ = values.means.shape
    w = values.weights[..., 0].expand(K, N).T  # [N, K]
    chance = w.sqrt() / w.sqrt().sum(1, keepdim=True)
    which = torch.multinomial(chance, DRAWS, replacement=True, generator=generator)  # [N, Q]
    counts = (w / chance).gather(1, which).T.unsqueeze(-1)  # [Q, N, 1]
    counts = counts / counts.sum(0)
    at = which.T.unsqueeze(-1).expand(-1, -1, values.means.shape[2])
    mean, sd = values.means.gather(0, at), values.variances.gather(0, at).sqrt()
    step = sd * torch.randn(mean.shape, generator=generator).to(mean)
    return Draws(torch.cat([mean + step, mean - step]), torch.cat([counts, counts]) / 2)


def value_loss(
    student: Normals, epistemic: Float[Tensor, "N P"], aleatoric: Float[Tensor, "N P"], draws: Draws
) -> Float[Tensor, ""]:
    """The loss of a batch, a mean over rows and outputs: draws and variances are the teacher's."""
    shape = epistemic.shape
    mixture = (each.reshape(-1, 1, *shape) for each in student[3:])
    fit = (draws.weights * mixture_log_prob(draws.y, *mixture)).sum(0).mean()
    spreads = spread_loss(student.epistemic_std, epistemic) + spread_loss(student.aleatoric_std, aleatoric)
    return spreads - fit


def spread_loss(std: Float[Tensor, "*rows"], variance: Float[Tensor, "N P"]) -> Float[Tensor, ""]:
    """D."""
    own = std.reshape(variance.shape).square() + TINY
    return 0.5 * (own.log() + (variance + TINY) / own).mean()


def label_loss(student: Classes, labels: Labels) -> Float[Tensor, ""]:
    """The loss of a batch, a mean over rows."""
    p, q = labels.probabilities, student.probabilities
    fit = (p * q.clamp_min(TINY).log()).sum(1).mean()
    return spread_loss(student.epistemic_std, labels.spread) - fit


@torch.enable_grad()
def learn_means(
    network: SmallNetwork,
    x: Float[Tensor, "N F"],
    means: Float[Tensor, "N P"],
    variances: Float[Tensor, "N P"],
    steps: int,
    generator: torch.Generator,
) -> None:
    """Least squares, in the teacher's standard deviations, with a rate that falls to zero."""
    adam = torch.optim.Adam(network.parameters(), lr=MEAN_RATE, betas=MEAN_BETAS, fused=True)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    weights = (variances.median(0).values / variances).clamp(1 / MOST, MOST)
    for _ in range(steps):
        rows = torch.randint(len(x), (min(BATCH, len(x)),), generator=generator)
        loss = (weights[rows] * (network(x[rows]) - means[rows]).square()).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        falling.step()


@torch.enable_grad()
def learn(
    head: ValueHead | ClassHead,
    along: Along,
    features: Float[Tensor, "N F"],
    answers: Values | Labels,
    steps: int,
    generator: torch.Generator,
) -> None:
    """Adam in minibatches, with a rate that falls to zero."""
    adam = torch.optim.Adam(head.parameters(), lr=RATE, fused=True)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    size = min(BATCH, len(features))
    start = len(features)
    for _ in range(steps):
        if start + size > len(features):  # every place was seen: new draws
            order, start = torch.randperm(len(features), generator=generator).to(features.device), 0
            draws = draw(answers, generator) if isinstance(answers, Values) else None
        rows, start = order[start : start + size], start + size
        said = head(Along(*(values[rows] for values in along)), features[rows])
        if isinstance(answers, Labels):
            loss = label_loss(said, Labels(*(values[rows] for values in answers)))
        else:
            assert draws is not None
            moments = answers.epistemic[rows], answers.aleatoric[rows]
            loss = value_loss(said, *moments, Draws(draws.y[:, rows], draws.weights[:, rows]))
        adam.zero_grad()
        loss.backward()
        adam.step()
        falling.step()
