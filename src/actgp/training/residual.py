"""A GP around a trained network, in closed form but for a handful of numbers: the network is there already.

    y_i = μ(x_i) + g(z_i) + ε_i,     g ~ GP(0, v k),     ε_i ~ noise of variance σ² ρ(h_i), and outliers

A network's residuals r = y − μ are smaller on the rows that it was trained on than on new ones. So training rows say
where errors are large, and which way they go; how large they are is for held-out rows to say. Three steps:

1. *Leave one out.* Residuals of training rows become those that leave the row out, r_i / (1 − l_i) (`leverage`).
2. *The shape of the noise.* The slopes in ρ, and the width of outliers, are those under which the residuals of both
   kinds of rows are most probable if g = 0, as far as held-out rows bear them out (`noise_shape`).
3. *Its level, and g.* σ², v and the width of outliers are those under which held-out rows are most probable, each given
   g of all rows but itself: Bayesian linear regression with weights 1/ρ_i (`regression`), to whose variances the part
   v (k − Σ A²) of the prior is added that no q(u) explains.

Each number has a weak prior about what is plausible, and those that are registered on parameters join these. In the
end all variances are multiplied by 1 + 4/n, since four numbers were fitted to n held-out rows.

g corrects the mean only as far as these rows bear it out (`borne_out`): the network's mean is better than none, and a
few large errors among few rows can make a g that is worth less.

Where the last layer of the network has nearly as many effective parameters as there are rows, to leave a row out says
little, and training rows are left aside. Without held-out rows, the leave-one-out residuals take their place. Where
these say little, or are much larger than the network's own, g keeps its prior: only the level of the noise and v are
fitted.
"""

import copy
from collections.abc import Callable
from math import log
from typing import Any, NamedTuple

import torch
from gpytorch.constraints import GreaterThan, Positive
from jaxtyping import Float64
from torch import Tensor

from actgp.layers import GPLayer
from actgp.layers.variational import unexplained
from actgp.likelihoods import Latent, LikelihoodAdapter, adapter_of
from actgp.models import DeepGP
from actgp.training.calibrate import (
    free_variance,
    has_free_noise,
    has_free_outliers,
    has_free_slopes,
    raw_variance,
    set_noise,
    set_outlier_noise,
    set_variance,
)
from actgp.training.lbfgs import maximise
from actgp.training.leverage import ridge_leverages, without_row
from actgp.training.loader import Batch
from actgp.training.noise_shape import (
    LEVEL_SD,
    OUTLIER_SD,
    TINY,
    Errors,
    fit_noise,
    log_normal,
    mean_square,
    start_noise,
    those_free,
)
from actgp.training.objectives import has_priors, log_prior
from actgp.training.recipe import MOST_OVERFITTED
from actgp.training.regression import Given, leave_one_out, posterior, regress

NUM_STEPS = 60  # of L-BFGS, for each of steps 2 and 3
MOST_PARAMETERS = 0.7  # γ, relative to the rows, up to which leaving one out says something
EXPLAINED = 0.1  # where the prior of g's variance is centred, relative to that of noise
PARAMETERS = 4  # that are fitted to held-out rows
CERTAIN = 2.0  # standard errors by which corrections have to lower the squared error


class Rows(NamedTuple):
    """Rows as g sees them. A and what it leaves unexplained are those of v = 1.

    Attributes:
        h: What the layer is given.
        r: y − μ.
        A: Whitened covariances.
        rest: k − Σ A².
    """

    h: Float64[Tensor, "N H"]
    r: Float64[Tensor, "N P"]
    A: Float64[Tensor, "N M"]
    rest: Float64[Tensor, " N"]


class ResidualFit(NamedTuple):
    """What came of it.

    Attributes:
        objectives: The objective of step 3 after each step of L-BFGS, for each row that it is judged by.
        stopped: Why that ended.
        training_error: The network's mean squared error on the rows that it was trained on.
        new_error: That on held-out rows, or by leaving each training row out.
        known: Whether g was given rows, and does not have its prior still.
    """

    objectives: tuple[float, ...]
    stopped: str
    training_error: float
    new_error: float
    known: bool


@torch.enable_grad()
def fit_residual(
    model: DeepGP, train: Batch, held_out: Batch | None, report: Callable[[float], None] = lambda _: None
) -> ResidualFit:
    """Fits a layer that carries its prior mean, and Gaussian noise; the model changes at the end, all at once.

    Args:
        model: Of one such layer, without a backbone.
        train: What the network was trained on.
        held_out: What it was not.
        report: Called with the objective of step 3 after each step of L-BFGS.
    """
    own = _in_logarithms(copy.deepcopy(model).double())
    (layer,) = own.gp_layers
    trained = rows_of(layer, train)
    leverages = ridge_leverages(layer.split(trained.h)[0], train[1].double())
    left_out = trained._replace(r=without_row(trained.r, leverages))
    judged = left_out if held_out is None else rows_of(layer, held_out)
    errors = mean_square(trained.r), mean_square(judged.r)
    useful = leverages.sum().item() <= MOST_PARAMETERS * len(leverages)
    others = left_out if held_out is not None and useful else None
    known = held_out is not None or (useful and errors[1] <= MOST_OVERFITTED * errors[0])

    start_noise(own, errors[1])
    if known:
        fit_noise(own, Errors(judged.h, judged.r), None if others is None else Errors(others.h, others.r))
    objectives: list[float] = []

    def record(objective: float) -> None:
        objectives.append(objective / len(judged.r))
        report(objectives[-1])

    stopped = fit_g(own, judged, others, known=known, report=record)
    _assign(model, own)
    return ResidualFit(tuple(objectives), stopped, *errors, known)


@torch.no_grad()
def rows_of(layer: GPLayer, batch: Batch) -> Rows:
    """Rows (h, y) as g sees them."""
    h, y = (values.double() for values in batch)
    z, mu = layer.split(h)
    assert mu is not None
    A = layer.whiten(h)
    return Rows(h, y - mu, A, unexplained(A, layer.kernel(z, diag=True)))


def _in_logarithms(model: DeepGP) -> DeepGP:
    """The same model, its variances parametrised by logarithms: L-BFGS then does not depend on the unit of y."""
    parts = [(model.likelihood.noise_covar, "raw_noise"), (model.likelihood, "raw_outlier_noise")]
    for module, name in [*parts, (model.gp_layers[0].kernel, "raw_outputscale")]:
        constraint: Any = getattr(module, f"{name}_constraint", None)
        if type(constraint) in (GreaterThan, Positive):
            value = constraint.transform(getattr(module, name))
            logarithmic = GreaterThan(constraint.lower_bound, transform=torch.exp, inv_transform=torch.log)
            module.register_constraint(name, logarithmic.to(value))
            module.initialize(**{name: logarithmic.inverse_transform(value)})
    return model


@torch.no_grad()
def _assign(model: DeepGP, own: DeepGP) -> None:
    """Takes over noise, the kernel's variance and q(u)."""
    (layer,), (fitted,) = model.gp_layers, own.gp_layers
    if has_free_noise(model):
        set_noise(model, own.likelihood.noise.item())
    if has_free_outliers(model):
        set_outlier_noise(model, own.likelihood.outlier_noise.item())
    if has_free_slopes(model):
        model.likelihood.slopes.copy_(own.likelihood.slopes)
    if (variance := free_variance(fitted)) is not None:
        set_variance(layer, variance)
    layer.q.assign(fitted.q.mean.to(layer.q.raw_mean), fitted.q.scale_tril.to(layer.q.raw_mean))


def fit_g(model: DeepGP, judged: Rows, others: Rows | None, *, known: bool, report: Callable[[float], None]) -> str:
    """Step 3: σ², v, the width of outliers, and q(u).

    Args:
        model: Of one layer, its noise as step 2 left it.
        judged: Rows that are predicted, each by g of the other rows.
        others: More rows that g is given.
        known: Whether g is given rows at all.
        report: Called with the objective after each step.

    Returns:
        Why it ended.
    """
    (layer,), adapter, likelihood = model.gp_layers, adapter_of(model.likelihood), model.likelihood
    noise = adapter.noise_parameters()
    rho = _relative_noise(adapter, judged)
    relative = None if noise.slopes is None else rho.unsqueeze(-1)  # [n, 1]
    row = Given(judged.A, judged.r, 1 / rho if known else torch.zeros_like(rho))
    more = [] if others is None else [Given(others.A, others.r, 1 / _relative_noise(adapter, others))]
    regression = regress([row, *more])
    AQ = judged.A @ regression.Q

    level = likelihood.noise.log().detach()
    outliers = None if noise.outlier_noise is None else (likelihood.outlier_noise / likelihood.noise).log().detach()
    prior_variance = (judged.A.square().sum(1) + judged.rest).mean().clamp_min(TINY)  # the mean of k at v = 1
    v_level = log(EXPLAINED) + level - prior_variance.log()
    v = _relative_variance(layer)
    if (variance := free_variance(layer)) is not None and not has_priors(layer.kernel):
        set_variance(layer, variance * v_level.exp().squeeze())

    def objective(part: float) -> Tensor:
        mean, variance = leave_one_out(regression, row, AQ, v(), likelihood.noise)
        variance = variance + v() * judged.rest
        latent = Latent(part * mean, variance.unsqueeze(-1).expand_as(mean), relative)
        total = adapter.log_marginal(judged.r, latent).sum() + log_prior(model).to(level)
        total = total + log_normal(likelihood.noise.log(), level, LEVEL_SD) + log_normal(v().log(), v_level, LEVEL_SD)
        if outliers is not None:
            width = (variance + likelihood.noise * rho).mean()
            total = total + log_normal((likelihood.outlier_noise / width).log(), outliers, OUTLIER_SD)
        return total

    free = those_free(raw_variance(layer), noise.noise, noise.outlier_noise)
    stopped = maximise(free, lambda: objective(1.0), NUM_STEPS, report) if free else "converged"
    with torch.no_grad():
        part = borne_out(leave_one_out(regression, row, AQ, v(), likelihood.noise)[0], judged.r)
    if known and part < 1 and free:
        stopped = maximise(free, lambda: objective(part), NUM_STEPS, report)
    with torch.no_grad():
        m, S = posterior(regression, v(), likelihood.noise)
        _widen(model, part * m, S, 1 + PARAMETERS / len(judged.r))
    return stopped


def borne_out(mean: Float64[Tensor, "N P"], r: Float64[Tensor, "N P"]) -> float:
    """α in [0, 1], by which corrections f_i of residuals r_i are multiplied, each found without its own row.

    Σ (r_i − α f_i)² is least at α̂ = Σ f_i r_i / Σ f_i². Of this numerator two standard errors are taken off, found from
    its terms less α̂ f_i². A single row bears out nothing.
    """
    if len(r) == 1:
        return 0.0
    products, squares = (mean * r).sum(1), mean.square().sum(1)  # [N]
    total = squares.sum().clamp_min(TINY)
    best = (products.sum() / total).clamp(0, 1)
    error = (products - best * squares).std() * len(r) ** 0.5
    return float(((products.sum() - CERTAIN * error) / total).clamp(0, 1))


def _relative_variance(layer: GPLayer) -> Callable[[], Tensor]:
    """() ↦ v: the variance of a kernel, relative to what it is now."""
    start = free_variance(layer)
    now = layer.q.raw_mean.new_ones(()) if start is None else start.detach().clone()

    def relative() -> Tensor:
        variance = free_variance(layer)
        return (now if variance is None else variance / now).squeeze()

    return relative


def _widen(model: DeepGP, m: Float64[Tensor, "M P"], S: Float64[Tensor, "M M"], c: float) -> None:
    """Sets q(u), and multiplies variances by c: of the noise, and of g, while its mean √v A m stays."""
    (layer,) = model.gp_layers
    variance = free_variance(layer)
    if has_free_noise(model):
        set_noise(model, model.likelihood.noise.item() * c)
    if has_free_outliers(model):
        set_outlier_noise(model, model.likelihood.outlier_noise.item() * c)
    if variance is None:
        m, S = m * c**0.5, S * c**0.5
    else:
        set_variance(layer, variance * c)
    layer.q.assign(m / c**0.5, S.expand(m.shape[1], -1, -1))


def _relative_noise(adapter: LikelihoodAdapter, rows: Rows) -> Float64[Tensor, " N"]:
    """ρ."""
    relative = adapter.relative_noise(rows.h)
    return torch.ones_like(rows.rest) if relative is None else relative.detach().squeeze(-1)
