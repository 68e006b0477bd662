"""A GP around a trained network, in closed form: no steps, since the network is there already.

    y_i = μ(x_i) + g(z_i) + ε_i,     g ~ GP(0, v k),     ε_i ~ noise of variance σ² ρ(h_i), and outliers

A network's residuals r = y − μ are smaller on the rows that it was trained on than on new ones. So those rows say where
errors are large and which way they go, and held-out rows say how large they are. Three steps:

1. Residuals of the training rows are made those of a ridge regression of y on z that leaves the row out: r_i / (1 − l_i),
   with leverage l_i, and the penalty by evidence.
2. ρ: slopes of the noise and width of outliers are those under which the residuals of both kinds of rows are most
   probable. The level is each kind's own.
3. σ², v and the width of outliers are those under which held-out rows are most probable, with g given all rows but the one
   that is predicted. With whitened A at v = 1, noise weights W = diag(1/ρ_i) and Aᵀ W A = Q Λ Qᵀ,

       q(u) = N(Q s ∘ √v/σ² Qᵀ Aᵀ W r, Q diag(s) Qᵀ),     s = 1 / (1 + v Λ / σ²),

   and a row's leverage in it is l_i = v Σ_j (A Q)²_ij s_j / (σ² ρ_i).

Each number has a weak prior about what is plausible. Predictions are widened by 1 + 4 / n at the end, for n held-out rows,
since the numbers have been fitted to these. Without held-out rows the training rows take their place.
"""

import copy
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp.layers import GPLayer
from actgp.layers.variational import unexplained
from actgp.likelihoods import Latent, LikelihoodAdapter, adapter_of
from actgp.models import DeepGP
from actgp.training.calibrate import free_variance, set_variance
from actgp.training.data import Batch
from actgp.training.lbfgs import maximise

NUM_STEPS = 40
PENALTIES = torch.logspace(-6, 2, 49, dtype=torch.float64)  # of the ridge regression, relative to the mean square of z
LARGEST_LEVERAGE = 0.95
SLOPE_SD = 0.1  # of the prior of slopes, for columns of unit spread
OUTLIER_RATIO = 9.0  # of the prior, outliers' variance relative to the others'
LEVEL_SD, FIRST_OUTLIER_SD, OUTLIER_SD = 2.0, 0.5, 0.5  # of logarithms, in their priors
EXPLAINED = 0.1  # of the residuals' variance by g, where its prior is centred
PARAMETERS = 4  # fitted to held-out rows
TINY = 1e-30


class Rows(NamedTuple):
    """Rows as g sees them; A and what it leaves unexplained are those of v = 1."""

    h: Float64[Tensor, "N H"]
    residual: Float64[Tensor, "N P"]
    A: Float64[Tensor, "N M"]
    rest: Float64[Tensor, " N"]


@torch.enable_grad()
def fit_around(model: DeepGP, train: Batch, held_out: Batch | None) -> None:
    """Fits a layer that carries its prior mean, and Gaussian noise.

    Args:
        model: Of one such layer, without a backbone.
        train: What the network was trained on.
        held_out: What it was not.
    """
    (layer,) = model.gp_layers
    noise = copy.deepcopy(model.likelihood).double()
    rows = _rows(layer, train)
    rows = rows._replace(residual=leave_one_out(layer, train))
    judged = rows if held_out is None else _rows(layer, held_out)
    fit = Fit(adapter_of(noise), rows, judged, held_out is not None)
    fit.shape_noise()
    v, mean, S, score = fit.fit_g()
    with torch.no_grad():
        model.likelihood.load_state_dict(noise.state_dict())
        set_variance(layer, v)
        layer.q.assign(mean.to(layer.q.raw_mean), S.to(layer.q.raw_mean).expand(mean.shape[1], -1, -1))
    return score


@torch.no_grad()
def _rows(layer: GPLayer, batch: Batch) -> Rows:
    h, y = batch
    z, mu = layer.split(h.double())
    assert mu is not None
    whole = copy.deepcopy(layer).double()
    A = whole.whiten(h.double())
    prior = whole.kernel(z, diag=True)
    v = free_variance(whole)
    return Rows(h.double(), y.double() - mu, A / v.sqrt(), unexplained(A, prior) / v)


@torch.no_grad()
def leave_one_out(layer: GPLayer, batch: Batch) -> Float64[Tensor, "N P"]:
    """r_i / (1 − l_i), with the leverage of ridge regression of y on z."""
    h, y = batch[0].double(), batch[1].double()
    z, mu = layer.split(h)
    Phi = torch.cat([z, torch.ones_like(z[:, :1])], dim=1)
    N = len(Phi)
    Lambda, Q = torch.linalg.eigh(Phi.T @ Phi)
    Lambda = Lambda.clamp_min(0)
    b = Q.T @ (Phi.T @ y)  # [H, P]
    best, chosen = float("inf"), PENALTIES[0]
    for penalty in PENALTIES.to(Phi) * Lambda.sum() / len(Lambda) / 100:
        s = 1 / (Lambda + penalty)
        left = (y.square().sum(0) - (b.square() * s[:, None]).sum(0)).clamp_min(TINY)  # [P]: yᵀ (I + ΦΦᵀ/penalty)⁻¹ y
        value = (0.5 * N * (left / N).log() + 0.5 * torch.log1p(Lambda / penalty).sum()).sum().item()
        if value < best:
            best, chosen = value, penalty
    leverage = ((Phi @ Q).square() / (Lambda + chosen)).sum(1)
    assert mu is not None
    return (y - mu) / (1 - leverage).clamp_min(1 - LARGEST_LEVERAGE)[:, None]


@dataclass
class Fit:
    """The numbers that are sought."""

    adapter: LikelihoodAdapter
    rows: Rows
    judged: Rows
    has_held_out: bool

    def shape_noise(self) -> None:
        noise = self.adapter.noise_parameters()
        likelihood = self.adapter.likelihood
        level = _mean_square(self.judged.residual)
        likelihood.noise = level
        offset = torch.tensor(_mean_square(self.rows.residual) / level, dtype=torch.float64).log().requires_grad_()
        first = offset.item()
        parameters = [noise.noise, offset]
        sd = self.rows.h.std(0).clamp_min(1e-6)
        if noise.outlier_noise is not None:
            likelihood.outlier_noise = OUTLIER_RATIO * level
            parameters.append(noise.outlier_noise)
        if noise.slopes is not None:
            noise.slopes.data.zero_()
            parameters.append(noise.slopes)
        kinds = [(self.rows, offset)]
        if self.has_held_out:
            kinds.append((self.judged, torch.zeros_like(offset)))
        standardised = [(rows.h / sd).clamp(-4, 4) for rows, _ in kinds]

        def objective() -> Tensor:
            total = -0.5 * ((likelihood.noise.log() - log(level)) / LEVEL_SD).square().sum()
            if self.has_held_out:
                total = total - 0.5 * ((offset - first) / LEVEL_SD).square()
            if noise.outlier_noise is not None:
                ratio = (likelihood.outlier_noise / likelihood.noise).log() - log(OUTLIER_RATIO)
                total = total - 0.5 * (ratio / FIRST_OUTLIER_SD).square().sum()
            if noise.slopes is not None:
                total = total - 0.5 * (noise.slopes / SLOPE_SD).square().sum()
            for (rows, shift), h in zip(kinds, standardised, strict=True):
                r = rows.residual * (-0.5 * shift).exp()
                zero = torch.zeros_like(r)
                latent = Latent(zero, zero, self.adapter.relative_noise(h))
                total = total + self.adapter.log_marginal(r, latent).sum() - 0.5 * shift * r.numel()
            return total

        maximise(parameters if self.has_held_out else [p for p in parameters if p is not offset], objective, NUM_STEPS)
        if noise.slopes is not None:
            noise.slopes.data.div_(sd)

    def fit_g(self):
        adapter, likelihood = self.adapter, self.adapter.likelihood
        noise = adapter.noise_parameters()
        with torch.no_grad():
            relative = [self._relative(rows) for rows in (self.rows, self.judged)]
        parts = [(self.rows, relative[0])] + ([(self.judged, relative[1])] if self.has_held_out else [])
        A = torch.cat([rows.A for rows, _ in parts])
        W = 1 / torch.cat([rho for _, rho in parts])
        r = torch.cat([rows.residual for rows, _ in parts])
        Lambda, Q = torch.linalg.eigh(A.T @ (W * A))
        Lambda = Lambda.clamp_min(0)
        b = Q.T @ (A.T @ (W * r))  # [M, P]
        judged, rho = self.judged, relative[1]
        squares = (judged.A @ Q).square()
        AQ = judged.A @ Q
        k = (self.rows.A.square().sum(1) + self.rows.rest).mean()
        with torch.no_grad():
            sigma = likelihood.noise.log().item()
            outliers = None if noise.outlier_noise is None else (likelihood.outlier_noise / likelihood.noise).log().item()
        v_at = log(EXPLAINED) + sigma - k.log().item()
        log_v = torch.tensor(v_at, dtype=torch.float64, requires_grad=True)

        def objective() -> Tensor:
            v, f = log_v.exp(), likelihood.noise
            s = v / (1 + v * Lambda / f)
            variance = squares @ s  # [N]
            leverage = (variance.unsqueeze(-1) / (f * rho)).clamp(max=0.99)  # [N, 1]
            mean = AQ @ (s[:, None] * b / f)
            r = judged.residual
            mean = r - (r - mean) / (1 - leverage)
            total = (variance + v * judged.rest).unsqueeze(-1)
            total = variance.unsqueeze(-1) / (1 - leverage) + (v * judged.rest).unsqueeze(-1)
            fit = adapter.log_marginal(r, Latent(mean, total.expand_as(mean), rho if noise.slopes is not None else None)).sum()
            prior = ((log_v - v_at) / LEVEL_SD).square() + ((f.log() - sigma) / LEVEL_SD).square().sum()
            if outliers is not None:
                size = (total + f * rho).mean()
                prior = prior + (((likelihood.outlier_noise / size).log() - outliers) / OUTLIER_SD).square().sum()
            return fit - 0.5 * prior

        if outliers is not None:
            likelihood.outlier_noise = likelihood.outlier_noise.item()
        maximise([p for p in (log_v, noise.noise, noise.outlier_noise) if p is not None], objective, NUM_STEPS)
        score = objective().item()
        with torch.no_grad():
            v, f = log_v.exp(), likelihood.noise
            s = 1 / (1 + v * Lambda / f)
            mean = Q @ (s[:, None] * b * v.sqrt() / f)
            c = 1 + PARAMETERS / len(judged.h) if self.has_held_out else 1.0
            S = torch.linalg.cholesky((Q * s) @ Q.T)
            likelihood.noise = f * c
            if outliers is not None:
                likelihood.outlier_noise = likelihood.outlier_noise * c
            return v * c, mean / c**0.5, S, score

    def _relative(self, rows: Rows) -> Tensor:
        relative = self.adapter.relative_noise(rows.h)
        return torch.ones_like(rows.residual[:, :1]) if relative is None else relative


def _mean_square(r: Tensor) -> float:
    return max(r.square().mean().item(), TINY)
