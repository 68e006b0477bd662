"""The members of a mixture for tables, each fitted and judged by rows that it has not seen."""

import copy
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float64, Int64
from torch import Tensor

from actgp.features import InducingPoints, centres
from actgp.kernels import ArcCosine
from actgp.layers import GPLayer
from actgp.models import DeepGP
from actgp.models.build import deep_gp
from actgp.tables.around import fit_around
from actgp.tables.evidence import MOST_ROWS, arc_cosine, evidence_maxima, matern
from actgp.tables.one_layer import LeftOut, fit_one_layer
from actgp.tables.one_layer_labels import fit_labels
from actgp.tables.targets import Targets
from actgp.training import Recipe, fit

EXACT = 1_000  # rows up to which every row is an inducing point
MOST_POINTS = 512  # beyond that
MOST_TO_CHOOSE = 2_000  # rows that choose between two maxima of the evidence
HELD_OUT, MOST_HELD_OUT = 0.2, 1_000  # of deep members
NUM_SAMPLES = 32
SMALLEST_SIZE = 1e-12


class Member(NamedTuple):
    """A model.

    Attributes:
        name: In reports.
        model: What was fitted.
        densities: Log densities of rows it has not seen; NaN for those it has.
        error: Its mean squared error on such rows, or its mean negative log density of labels.
    """

    name: str
    model: DeepGP
    densities: Float64[Tensor, " N"]
    error: float

    @property
    def score(self) -> float:
        """Their mean."""
        return self.densities.nanmean().item()


class Division(NamedTuple):
    """Rows to train deep members on, and others to judge all members by."""

    train: Tensor
    others: Tensor


class Prior(NamedTuple):
    """A GP of one layer before it is fitted.

    Attributes:
        name: In reports.
        kernel: With the hyper-parameters where the evidence is largest.
        noise: σ² there.
        points: Where it is known best.
        mean: Zero, or carried by the last columns of h.
    """

    name: str
    kernel: Kernel
    noise: float
    points: Float64[Tensor, "M D"]
    mean: Literal["zero", "carried"]


def gp_prior(
    name: str,
    h: Float64[Tensor, "N H"],
    y: Targets,
    generator: torch.Generator,
    *,
    carried: int = 0,
    evidence_rows: int = MOST_ROWS,
) -> Prior:
    """What a GP of one layer begins with: of two maxima of the evidence the one that predicts left-out rows better.

    Args:
        name: Which.
        h: What the layer is given.
        y: Targets.
        generator: Draws the seed of clusters.
        carried: How many of the last columns of h are the prior mean.
        evidence_rows: Of which the evidence is taken at most.
    """
    D = h.shape[1] - carried
    z, mu = (h[:, :D], h[:, D:]) if carried else (h, None)
    r = y.residuals(mu)
    size = r.square().mean().sqrt().clamp_min(SMALLEST_SIZE)
    seed = int(torch.randint(2**31, (), generator=generator))
    points = z if len(z) <= EXACT else centres(z, MOST_POINTS, seed)
    kernel = arc_cosine(D) if name.startswith("arc") else matern(D)
    priors = []
    for found in evidence_maxima(kernel, z, r / size, evidence_rows):
        _enlarge(found.kernel, size**2)
        noise = found.noise * size.item() ** 2
        priors.append(Prior(name, found.kernel, noise, points, "carried" if carried else "zero"))
    few = torch.arange(min(len(h), MOST_TO_CHOOSE))
    return priors[0] if len(priors) == 1 else max(priors, key=lambda prior: gp_member(prior, h, y, few).score)


def gp_member(prior: Prior, h: Float64[Tensor, "N H"], y: Targets, rows: Int64[Tensor, " n"]) -> Member:
    """A GP of one layer, in closed form or by Laplace's approximation, fitted to some of the rows."""
    layer = GPLayer(copy.deepcopy(prior.kernel), InducingPoints(prior.points), y.num_outputs, prior.mean)
    model = DeepGP([layer], y.likelihood(h.shape[1])).double()
    left = _fit(model, h[rows], y[rows], prior.noise)
    return Member(prior.name, model, _among(len(h), rows, left.densities), left.error)


def _fit(model: DeepGP, h: Float64[Tensor, "N H"], y: Targets, noise: float) -> LeftOut:
    return fit_one_layer(model, h, y.values, noise) if y.num_classes is None else fit_labels(model, h, y.values)


@torch.no_grad()
def _enlarge(kernel: Kernel, factor: Tensor) -> None:
    """Multiplies its variance."""
    if isinstance(kernel, ArcCosine):
        kernel.variance = kernel.variance * factor
    else:
        kernel.outputscale = kernel.outputscale * factor


def deep_member(
    h: Float64[Tensor, "N H"],
    y: Targets,
    division: Division,
    steps: int,
    callback: Callable[[Any], bool | None],
    generator: torch.Generator,
    progress: bool,
) -> Member:
    """A deep GP around networks."""
    train, others = division
    held_out = (h[others], y.values[others])
    model = fit_around(h[train], y.values[train], held_out, steps, callback, generator, progress)
    return _judged("deep GP around networks", model, h, y, others)


def whole_member(
    X: Float64[Tensor, "N D"],
    y: Targets,
    division: Division,
    callback: Callable[[Any], bool | None],
    generator: torch.Generator,
    progress: bool,
) -> Member:
    """A deep GP as `deep_gp` builds it, trained from its first layer to its last."""
    train, others = division
    M = min(128, len(train))
    likelihood = None if y.num_classes is None else y.likelihood(1)
    model = deep_gp(X.shape[1], y.num_outputs, num_inducing=M, likelihood=likelihood, generator=generator)
    values = y.values.float() if y.values.is_floating_point() else y.values
    held_out = (X[others].float(), values[others])
    fit(
        model,
        X[train].float(),
        values[train],
        Recipe(),
        held_out=held_out,
        callback=callback,
        generator=generator,
        progress=progress,
    )
    model.double()
    return _judged("deep GP", model, X, y, others)


def divided(N: int, rows: Tensor, generator: torch.Generator) -> Division:
    """Judges are among the rows that all GPs of one layer are fitted to, which say what these are without them."""
    held_out = min(int(HELD_OUT * N), MOST_HELD_OUT)
    order = rows[torch.randperm(len(rows), generator=generator)]
    unseen = torch.ones(N, dtype=torch.bool)
    unseen[rows] = False
    return Division(torch.cat([order[held_out:], unseen.nonzero().squeeze(1)]), order[:held_out])


def _judged(name: str, model: DeepGP, h: Tensor, y: Targets, rows: Tensor) -> Member:
    """By rows that were held out."""
    prediction, values = model.predict(h[rows], NUM_SAMPLES), y.values[rows]
    densities = prediction.log_prob(values)
    if y.num_classes is None:
        error = (prediction.mean.reshape(values.shape) - values).square().mean().item()
    else:
        error = -densities.mean().item()
    return Member(name, model, _among(len(h), rows, densities), error)


def _among(N: int, rows: Tensor, densities: Tensor) -> Float64[Tensor, " N"]:
    """Densities of some rows; NaN for all others."""
    found = torch.full((N,), float("nan"), dtype=densities.dtype)
    found[rows] = densities
    return found
