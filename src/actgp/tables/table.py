"""The default for a table: several models, each of which is the best for some tables, mixed by what they are worth.

- Two GPs of one layer on the inputs, an arc-cosine and a Matérn kernel: exact on small tables, and best there.
- Networks that are cross-fitted, and around them a GP of one layer on small tables, of two layers on large ones.

Weights come from rows that a member has not seen: left out in closed form, or held out of training.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from gpytorch.constraints import GreaterThan
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from actgp import checks
from actgp.features import InducingPoints, centres
from actgp.kernels import ArcCosine
from actgp.layers import GPLayer
from actgp.likelihoods import ContaminatedGaussianLikelihood
from actgp.models import DeepGP, Mixture, Networks
from actgp.models.build import deep_gp
from actgp.tables.around import fit_around
from actgp.tables.cross_fit import VALIDATE_EVERY, CrossFit, cross_fit
from actgp.tables.evidence import arc_cosine, matern, maximise_evidence
from actgp.tables.one_layer import fit_one_layer
from actgp.tables.stacking import stacking_weights
from actgp.training import Recipe, fit
from actgp.training.progress import progress_bar

Effort = Literal["fast", "balanced", "best"]

SHARE = 0.02  # of outliers, in GPs of one layer
SMALLEST_NOISE = 1e-8
EXACT = 1_000  # rows up to which every row is an inducing point
MOST_POINTS = 512  # beyond that
MOST_ROWS = 50_000  # that GPs of one layer are fitted to: they hold all of their covariances with the points
FEWEST_FOR_NETWORKS = 30  # rows
FEWEST_FOR_DEEP = 2_000
HOPELESS = 4.0  # times the mean squared error of the better GP, from which on nothing is put around networks
HELD_OUT, MOST_HELD_OUT = 0.2, 1_000  # of deep members
TYPICAL_ROWS, GROWTH = 2_000, 0.75  # of steps, with rows
NUM_SAMPLES = 32
LARGEST_MEAN, LARGEST_SPREAD = 2.0, 10.0  # of columns that are taken for standardised


class Plan(NamedTuple):
    """What an effort pays for.

    Attributes:
        networks: K.
        network_steps: On 2,000 rows; on others in proportion to their number to the power of .75, but from .4 to 2.8
            times as many.
        deep_steps: Of the deep GP around networks, likewise, to 1.5 times; 0 for a single layer on tables of any size.
        whole: Whether a deep GP that is trained from its first layer to its last is a member, too.
    """

    networks: int
    network_steps: int
    deep_steps: int
    whole: bool


PLANS: dict[Effort, Plan] = {
    "fast": Plan(3, 400, 0, False),
    "balanced": Plan(5, 1_600, 800, False),
    "best": Plan(10, 4_000, 2_000, True),
}


class Member(NamedTuple):
    """A model.

    Attributes:
        name: In reports.
        model: What was fitted.
        densities: Log densities of rows it has not seen; NaN for those it has.
        error: Its mean squared error on such rows.
    """

    name: str
    model: DeepGP
    densities: Float64[Tensor, " N"]
    error: float


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
    X: Float[Tensor, "N D"],
    y: Tensor,
    *,
    effort: Effort = "balanced",
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> tuple[Mixture, TableFit]:
    """Fits the members, and mixes them, in double precision.

    Args:
        X: Inputs, each column standardised.
        y: Targets, [N] or [N, P], likewise.
        effort: How much time is spent.
        generator: Source of all randomness; torch's global one by default.
        progress: Whether to show a progress bar, on a terminal.

    Example:
        >>> import actgp, torch
        >>> X = torch.randn(60, 2)
        >>> model, report = actgp.fit_table(X, X[:, 0].sin(), effort="fast")
        >>> lower, upper = model.predict(X.double()).interval(0.9)
    """
    X, y = _standardised(X, "X"), _standardised(y, "y")
    if len(X) != len(y) or len(X) < 2:
        raise ValueError(f"X and y must have the same two or more rows, got {len(X)} and {len(y)}; align them")
    if generator is None:
        generator = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
    plan, N = PLANS[checks.choice(effort, "effort", tuple(PLANS))], len(X)
    rows = torch.arange(N) if N <= MOST_ROWS else torch.randperm(N, generator=generator)[:MOST_ROWS]
    plain = [gp_member(name, X, y, rows, generator) for name in ("arc-cosine GP", "Matérn GP")]
    around: list[Member] = []
    crossed: CrossFit | None = None
    if N >= FEWEST_FOR_NETWORKS:
        crossed = _crossed(X, y, plan, generator, progress)
        hopeful = crossed.error <= HOPELESS * min(member.error for member in plain)
        h = torch.cat([X, crossed.left_out.double()], dim=1)
        deep = hopeful and plan.deep_steps > 0 and N >= FEWEST_FOR_DEEP
        division = _divided(N, rows, generator) if deep or plan.whole else None
        if division is not None and deep:
            around.append(deep_member(h, y, division, plan, generator, progress))
        elif hopeful:
            around.append(gp_member("GP around networks", h, y, rows, generator, carried=y.shape[1]))
        if division is not None and plan.whole:
            plain.append(whole_member(X, y, division, generator, progress))
    members = [*plain, *around]
    densities = torch.stack([member.densities for member in members], dim=1)  # [N, M]
    judged = densities[~densities.isnan().any(1)]
    weights = stacking_weights(judged)
    model = _mixture(plain, around, weights, None if crossed is None else crossed.networks)
    scores = dict(zip((m.name for m in members), judged.mean(0).tolist(), strict=True))
    scores["mixture"] = (judged + weights.log()).logsumexp(1).mean().item()
    return model, TableFit(dict(zip(scores, weights.tolist(), strict=False)), scores, len(judged))


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


def _crossed(X: Tensor, y: Tensor, plan: Plan, generator: torch.Generator, progress: bool) -> CrossFit:
    """Networks, as many as there are folds of ten rows or more."""
    steps = _steps(plan.network_steps, len(X), 2.8)
    bar = progress_bar("fit table: networks", steps // VALIDATE_EVERY) if progress else nullcontext(lambda _: None)
    with bar as report:
        return cross_fit(X, y, min(plan.networks, len(X) // 10), steps, generator, report)


class Division(NamedTuple):
    """Rows to train deep members on, and others to judge all members by."""

    train: Tensor
    others: Tensor


def deep_member(
    h: Tensor, y: Tensor, division: Division, plan: Plan, generator: torch.Generator, progress: bool
) -> Member:
    """A deep GP around networks."""
    train, others = division
    steps = _steps(plan.deep_steps, len(h), 1.5)
    model = fit_around(h[train], y[train], (h[others], y[others]), steps, generator, progress)
    return _judged("deep GP around networks", model, h, y, others)


def gp_member(
    name: str,
    h: Float64[Tensor, "N H"],
    y: Float64[Tensor, "N P"],
    rows: Int64[Tensor, " n"],
    generator: torch.Generator,
    *,
    carried: int = 0,
) -> Member:
    """A GP of one layer, in closed form.

    Args:
        name: Which.
        h: What the layer is given.
        y: Targets.
        rows: Those that it is fitted to.
        generator: Draws the seed of clusters.
        carried: How many of the last columns of h are the prior mean.
    """
    N, D = len(h), h.shape[1] - carried
    h, y = h[rows], y[rows]
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
    left_out = fit_one_layer(model, h, y, noise)
    return Member(name, model, _among(N, rows, left_out.densities), left_out.error)


def whole_member(X: Tensor, y: Tensor, division: Division, generator: torch.Generator, progress: bool) -> Member:
    """A deep GP as `deep_gp` builds it, trained from its first layer to its last."""
    train, others = division
    model = deep_gp(X.shape[1], y.shape[1], num_inducing=min(128, len(train)), generator=generator)
    held_out = (X[others].float(), y[others].float())
    fit(model, X[train].float(), y[train].float(), Recipe(), held_out=held_out, generator=generator, progress=progress)
    model.double()
    return _judged("deep GP", model, X, y, others)


def _divided(N: int, rows: Tensor, generator: torch.Generator) -> Division:
    """Judges are among the rows that all GPs of one layer are fitted to, which say what these are without them."""
    held_out = min(int(HELD_OUT * N), MOST_HELD_OUT)
    order = rows[torch.randperm(len(rows), generator=generator)]
    unseen = torch.ones(N, dtype=torch.bool)
    unseen[rows] = False
    return Division(torch.cat([order[held_out:], unseen.nonzero().squeeze(1)]), order[:held_out])


def _judged(name: str, model: DeepGP, h: Tensor, y: Tensor, rows: Tensor) -> Member:
    """By rows that were held out."""
    prediction = model.predict(h[rows], NUM_SAMPLES)
    error = (prediction.mean.reshape(y[rows].shape) - y[rows]).square().mean().item()
    return Member(name, model, _among(len(h), rows, prediction.log_prob(y[rows])), error)


def _among(N: int, rows: Tensor, densities: Tensor) -> Float64[Tensor, " N"]:
    """Densities of some rows; NaN for all others."""
    found = torch.full((N,), float("nan"), dtype=densities.dtype)
    found[rows] = densities
    return found


def _steps(steps: int, N: int, most: float) -> int:
    """More on larger tables, up to `most` times as many, and fewer on smaller ones."""
    return round(steps * min(most, max(0.4, (N / TYPICAL_ROWS) ** GROWTH)))
