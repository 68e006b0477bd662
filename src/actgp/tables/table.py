"""The default for a table: several models, each of which is the best for some tables, mixed by what they are worth.

- Two GPs of one layer on the inputs, an arc-cosine and a Matérn kernel: exact on small tables, and best there.
- Networks that are cross-fitted, and around them a GP of one layer on small tables, of two layers on large ones.

Weights come from rows that a member has not seen: left out in closed form, or held out of training.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from gpytorch.constraints import GreaterThan
from jaxtyping import Float64
from torch import Tensor

from actgp import checks
from actgp.features import InducingPoints, centres
from actgp.kernels import ArcCosine
from actgp.layers import GPLayer
from actgp.likelihoods import ContaminatedGaussianLikelihood
from actgp.models import DeepGP, Mixture, Networks
from actgp.models.build import deep_gp
from actgp.tables.around import fit_around
from actgp.tables.cross_fit import CrossFit, cross_fit
from actgp.tables.evidence import arc_cosine, matern, maximise_evidence
from actgp.tables.one_layer import fit_one_layer
from actgp.tables.stacking import stacking_weights
from actgp.training import Recipe, fit

Effort = Literal["fast", "balanced", "best"]

SHARE = 0.02  # of outliers, in GPs of one layer
SMALLEST_NOISE = 1e-8
EXACT = 1_000  # rows up to which every row is an inducing point
MOST_POINTS = 512  # beyond that
FEWEST_FOR_NETWORKS = 30  # rows
FEWEST_FOR_DEEP = 2_000
HELD_OUT, MOST_HELD_OUT = 0.2, 1_000  # of deep members
TYPICAL_ROWS = 2_000
NUM_SAMPLES = 32


class Plan(NamedTuple):
    """What an effort pays for.

    Attributes:
        networks: K.
        network_steps: On 2,000 rows; on other tables in proportion to the root of their number, from .4 to 2 times as
            many.
        deep_steps: Of the deep GP around networks, likewise, to 1.5 times; 0 for a single layer on tables of any size.
        whole: Whether a deep GP that is trained from its first layer to its last is a member, too.
    """

    networks: int
    network_steps: int
    deep_steps: int
    whole: bool


PLANS: dict[Effort, Plan] = {
    "fast": Plan(3, 400, 0, False),
    "balanced": Plan(5, 1_500, 800, False),
    "best": Plan(10, 4_000, 2_000, True),
}


class Member(NamedTuple):
    """A model, its name in reports, and the log densities of rows it has not seen: NaN for those it has."""

    name: str
    model: DeepGP
    densities: Float64[Tensor, " N"]


@dataclass(frozen=True)
class TableFit:
    """What was fitted.

    Attributes:
        weights: Of each member, by name.
        scores: The mean log density of left-out rows, of each member by itself and of the mixture.
        num_judged: How many rows weights were chosen by.
    """

    weights: dict[str, float]
    scores: dict[str, float]
    num_judged: int


def fit_table(
    X: Float64[Tensor, "N D"],
    y: Float64[Tensor, "N P"],
    *,
    effort: Effort = "balanced",
    generator: torch.Generator,
    progress: bool = False,
) -> tuple[Mixture, TableFit]:
    """Fits the members, and mixes them.

    Args:
        X: Inputs, each column standardised.
        y: Targets, likewise.
        effort: How much time is spent.
        generator: Source of all randomness.
        progress: Whether to show a progress bar, on a terminal.
    """
    plan = PLANS[checks.choice(effort, "effort", tuple(PLANS))]
    N, P = y.shape
    plain = [gp_member("arc-cosine GP", X, y, generator), gp_member("Matérn GP", X, y, generator)]
    around: list[Member] = []
    crossed: CrossFit | None = None
    if N >= FEWEST_FOR_NETWORKS:
        crossed = cross_fit(X, y, min(plan.networks, N // 10), _steps(plan.network_steps, N, 2.0), generator)
        h = torch.cat([X, crossed.left_out.double()], dim=1)
        deep = plan.deep_steps > 0 and N >= FEWEST_FOR_DEEP
        around.append(
            deep_member(h, y, plan, generator, progress)
            if deep
            else gp_member("GP around networks", h, y, generator, carried=P)
        )
    if plan.whole and N >= FEWEST_FOR_NETWORKS:
        plain.append(whole_member(X, y, generator, progress))
    members = [*plain, *around]
    densities = torch.stack([member.densities for member in members], dim=1)  # [N, M]
    judged = densities[~densities.isnan().any(1)]
    weights = stacking_weights(judged)
    model = _mixture(plain, around, weights, None if crossed is None else crossed.networks)
    scores = dict(zip((m.name for m in members), judged.mean(0).tolist(), strict=True))
    scores["mixture"] = (judged + weights.log()).logsumexp(1).mean().item()
    return model, TableFit(dict(zip(scores, weights.tolist(), strict=False)), scores, len(judged))


def _mixture(plain: list[Member], around: list[Member], weights: Tensor, networks: Networks | None) -> Mixture:
    """Of the members that count for something."""
    counts = (weights > 0).tolist()
    given_inputs = [m.model for m, counted in zip(plain, counts, strict=False) if counted]
    behind = [m.model for m, counted in zip(around, counts[len(plain) :], strict=True) if counted]
    own = networks.double() if behind and networks is not None else None
    return Mixture(given_inputs, behind, weights[weights > 0], own).eval()


def gp_member(
    name: str, h: Float64[Tensor, "N H"], y: Float64[Tensor, "N P"], generator: torch.Generator, *, carried: int = 0
) -> Member:
    """A GP of one layer, in closed form.

    Args:
        name: Which.
        h: What the layer is given.
        y: Targets.
        generator: Draws the seed of clusters.
        carried: How many of the last columns of h are the prior mean.
    """
    D = h.shape[1] - carried
    z, r = (h[:, :D], y - h[:, D:]) if carried else (h, y)
    kernel = arc_cosine(D) if name.startswith("arc") else matern(D)
    size = r.square().mean().sqrt().clamp_min(1e-12)
    noise = maximise_evidence(kernel, z, r / size).noise * size.item() ** 2
    with torch.no_grad():
        if isinstance(kernel, ArcCosine):
            kernel.variance = kernel.variance * size**2
        else:
            kernel.outputscale = kernel.outputscale * size**2
    seed = int(torch.randint(2**31, (), generator=generator))
    points = z if len(z) <= EXACT else centres(z, MOST_POINTS, seed)
    layer = GPLayer(kernel, InducingPoints(points), y.shape[1], "carried" if carried else "zero")
    likelihood = ContaminatedGaussianLikelihood(
        noise_constraint=GreaterThan(SMALLEST_NOISE), share=SHARE, input_dim=h.shape[1]
    )
    model = DeepGP([layer], likelihood).double()
    return Member(name, model, fit_one_layer(model, h, y, noise))


def deep_member(h: Tensor, y: Tensor, plan: Plan, generator: torch.Generator, progress: bool) -> Member:
    """A deep GP around networks."""
    train, others = _divided(len(h), generator)
    steps = _steps(plan.deep_steps, len(h), 1.5)
    model = fit_around(h[train], y[train], (h[others], y[others]), steps, generator, progress)
    return Member("deep GP around networks", model, _densities(model, h, y, others))


def whole_member(X: Tensor, y: Tensor, generator: torch.Generator, progress: bool) -> Member:
    """A deep GP as `deep_gp` builds it, trained from its first layer to its last."""
    train, others = _divided(len(X), generator)
    model = deep_gp(X.shape[1], y.shape[1], num_inducing=min(128, len(train)), generator=generator)
    held_out = (X[others].float(), y[others].float())
    fit(model, X[train].float(), y[train].float(), Recipe(), held_out=held_out, generator=generator, progress=progress)
    model.double()
    return Member("deep GP", model, _densities(model, X, y, others))


def _divided(N: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows to train on, and rows to judge by."""
    order = torch.randperm(N, generator=generator)
    held_out = min(int(HELD_OUT * N), MOST_HELD_OUT)
    return order[held_out:], order[:held_out]


def _densities(model: DeepGP, h: Tensor, y: Tensor, rows: Tensor) -> Float64[Tensor, " N"]:
    """Of some rows; NaN for all others."""
    found = torch.full((len(h),), float("nan"), dtype=h.dtype)
    found[rows] = model.predict(h[rows], NUM_SAMPLES).log_prob(y[rows])
    return found


def _steps(steps: int, N: int, most: float) -> int:
    """More on larger tables, up to `most` times as many, and fewer on smaller ones."""
    return round(steps * min(most, max(0.4, (N / TYPICAL_ROWS) ** 0.5)))
