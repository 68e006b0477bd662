"""A GP around a trained classifier, at once: how far its logits are known, and whether they are to be corrected.

    f(x) = μ(x) + g(z(x)),     g ~ GP(0, v k) for each class or logit

A network's logits on the rows that it was trained on say little of how wrong it is, so two things are left to others:

1. *v* is the largest of a grid with which the predictive log density of held-out rows, or of training rows without
   them, is at most .00003 nats a row below the best. q(u) has the mean zero, and a covariance by Gauss–Newton,
   S Sᵀ = (I + v Σ_i w_i a_i a_iᵀ)⁻¹, with w_i the Fisher information of row i in a logit, its mean over these: the same
   for all of them, so that classes stay in the order in which the network has them.
2. *m* is the most probable one given the training rows, by L-BFGS. It is kept if held-out rows are more probable with
   it than without, by two standard errors; without held-out rows it stays zero.
"""

import copy
from collections.abc import Callable
from math import log
from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp.layers import GPLayer
from actgp.layers.variational import unexplained
from actgp.likelihoods import LikelihoodAdapter, adapter_of
from actgp.linalg import posterior_scale
from actgp.models import DeepGP
from actgp.sampling import normal_points
from actgp.training.calibrate import free_variance, set_variance
from actgp.training.lbfgs import maximise
from actgp.training.loader import Batch
from actgp.training.objectives import SEED, log_prior

VARIANCES = tuple(10.0 ** (i / 4) for i in range(-16, 5))  # of g, at its mean over judging rows
PRICE = 3e-5  # nats for each row
CERTAIN = 2.0  # standard errors
NUM_STEPS = 60  # of L-BFGS
MOST_ROWS = 2_000  # that judge
POINTS = 64  # of an integral over logits
TINY = 1e-30


class Rows(NamedTuple):
    """Rows as g sees them, at v = 1.

    Attributes:
        mu: The network's logits.
        y: Labels.
        A: Whitened covariances.
        rest: k − Σ A².
    """

    mu: Float64[Tensor, "N P"]
    y: Tensor
    A: Float64[Tensor, "N M"]
    rest: Float64[Tensor, " N"]


@torch.enable_grad()
def fit_logits(
    model: DeepGP, train: Batch, held_out: Batch | None, report: Callable[[float], None] = lambda _: None
) -> tuple[float, ...]:
    """Fits a layer that carries its prior mean under a likelihood of labels without parameters.

    Args:
        model: Of one such layer, without a backbone; it changes at the end, all at once.
        train: What the network was trained on.
        held_out: What it was not.
        report: Called with each objective.

    Returns:
        The log density of judging rows, in nats for each, for the variances that were tried, and in the end.
    """
    own = copy.deepcopy(model).double()
    (layer,), adapter = own.gp_layers, adapter_of(own.likelihood)
    now = free_variance(layer)
    trained = _rows(layer, train, 1.0 if now is None else now.item())
    judged = trained if held_out is None else _rows(layer, held_out, 1.0 if now is None else now.item())
    judged = Rows(*(values[:MOST_ROWS] for values in judged))
    objectives: list[float] = []

    def score(v: float, m: Tensor | None, information: Tensor) -> Float64[Tensor, " N"]:
        S = posterior_scale(v * information)
        variance = v * (judged.rest + (judged.A @ S).square().sum(1))
        mean = judged.mu if m is None else judged.mu + v**0.5 * judged.A @ m
        scores = log_density(adapter, judged.y, mean, variance)
        objectives.append(scores.mean().item())
        report(objectives[-1])
        return scores

    with torch.no_grad():
        information = _information(adapter, trained, trained.mu)
        v = 1.0 if now is None else _largest(layer, judged, lambda v: score(v, None, information))
        before = score(v, None, information)
    m = torch.zeros(trained.A.shape[1], trained.mu.shape[1], dtype=torch.float64, device=trained.A.device)
    if held_out is not None:
        found = _most_probable(adapter, trained, v)
        corrected = _information(adapter, trained, trained.mu + v**0.5 * trained.A @ found)
        with torch.no_grad():
            gain = score(v, found, corrected) - before
        if len(gain) > 1 and gain.mean() > CERTAIN * gain.std() / len(gain) ** 0.5:
            m, information = found, corrected
    _assign(model, m, posterior_scale(v * information), None if now is None else v)
    return tuple(objectives)


@torch.no_grad()
def _rows(layer: GPLayer, batch: Batch, v: float) -> Rows:
    h, y = batch
    z, mu = layer.split(h.double())
    assert mu is not None
    A = layer.whiten(h.double())
    return Rows(mu, y if y.ndim == 1 else y.double(), A / v**0.5, unexplained(A, layer.kernel(z, diag=True)) / v)


def _largest(layer: GPLayer, judged: Rows, score: Callable[[float], Tensor]) -> float:
    """V: the last of the grid before predictions get worse than those of the network; priors may draw it elsewhere."""
    mean = (judged.A.square().sum(1) + judged.rest).mean().clamp_min(TINY).item()  # of k at v = 1
    best, chosen = -float("inf"), VARIANCES[0] / mean
    for variance in VARIANCES:
        v = variance / mean
        set_variance(layer, torch.tensor(v, dtype=torch.float64))
        prior = log_prior(layer.kernel).item() / len(judged.mu)
        value = score(v).mean().item() + prior
        if value < best - PRICE:
            break
        best, chosen = max(best, value), v
    return chosen


def _information(adapter: LikelihoodAdapter, rows: Rows, f: Float64[Tensor, "N P"]) -> Float64[Tensor, "M M"]:
    """Σ w_i a_i a_iᵀ."""
    w = adapter.fisher_factors(f).square().sum(0).mean(1)  # [N]
    return rows.A.T @ (w.unsqueeze(-1) * rows.A)


def _most_probable(adapter: LikelihoodAdapter, rows: Rows, v: float) -> Float64[Tensor, "M P"]:
    """The m of the largest Σ log p(y_i | μ_i + √v a_iᵀ m) − ½ ‖m‖²."""
    M, P = rows.A.shape[1], rows.mu.shape[1]
    m = torch.zeros(M, P, dtype=torch.float64, device=rows.A.device, requires_grad=True)
    A = v**0.5 * rows.A

    def objective() -> Tensor:
        return adapter.conditional_log_prob(rows.mu + A @ m, rows.y).sum() - 0.5 * m.square().sum()

    maximise([m], objective, NUM_STEPS)
    return m.detach()


def log_density(
    adapter: LikelihoodAdapter, y: Tensor, mean: Float64[Tensor, "N P"], variance: Float64[Tensor, " N"]
) -> Float64[Tensor, " N"]:
    """Log ∫ p(y_i | f) N(f; mean_i, variance_i I) df, at the same few points for all rows."""
    points = normal_points(POINTS, mean.shape[1], SEED).to(mean).unsqueeze(1)  # [Q, 1, P]
    f = mean + variance.sqrt().unsqueeze(-1) * points  # [Q, N, P]
    return adapter.conditional_log_prob(f, y).logsumexp(0) - log(POINTS)


@torch.no_grad()
def _assign(model: DeepGP, m: Tensor, S: Tensor, v: float | None) -> None:
    (layer,) = model.gp_layers
    if v is not None:
        set_variance(layer, torch.tensor(v).to(layer.q.raw_mean))
    layer.q.assign(m.to(layer.q.raw_mean), S.expand(m.shape[1], -1, -1).to(layer.q.raw_mean))
