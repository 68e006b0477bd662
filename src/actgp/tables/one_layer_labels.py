"""A GP of one layer for labels, by Laplace's approximation, each row predicted without itself at no further cost.

    p(y_i | f_i),     f_i = μ(h_i) + √v a_iᵀ u,     u ~ N(0, I),     whitened covariances a_i at v = 1,

with μ zero, or carried by h. q(u) has the most probable mean m, and the covariance S Sᵀ = (I + v Σ_i w_i a_i a_iᵀ)⁻¹,
with w_i the Fisher information of row i in a logit, its mean over these. Without row i, its logits have (Rasmussen and
Williams, 2006, section 5.5; Vehtari et al., 2016)

    variance c₋ᵢ = c_i / (1 − w_i c_i)     and mean     f_i − c₋ᵢ g_i,

with c_i = v a_iᵀ S Sᵀ a_i and the slope g_i = ∂ log p(y_i | f_i) / ∂f_i.

v is the one of a grid under which left-out rows are most probable.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp.layers.variational import unexplained
from actgp.likelihoods import LikelihoodAdapter, adapter_of
from actgp.linalg import posterior_scale
from actgp.models import DeepGP
from actgp.tables.one_layer import LeftOut
from actgp.training.calibrate import free_variance, set_variance
from actgp.training.lbfgs import maximise
from actgp.training.logits import log_density

VARIANCES = tuple(10.0**p for p in (-4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5))  # of g, at its mean over rows
NUM_STEPS = 60  # of L-BFGS
MOST_ROWS = 4_000  # that choose v
SMALLEST_REST = 1e-3  # of 1 − w c, where the approximation is a poor one
ENOUGH = 2  # how many larger v may be worse, one after the other


class Rows(NamedTuple):
    """Rows as g sees them, at v = 1.

    Attributes:
        mu: The prior mean.
        y: Labels.
        A: Whitened covariances.
        rest: k − Σ A².
    """

    mu: Float64[Tensor, "N P"]
    y: Tensor
    A: Float64[Tensor, "N M"]
    rest: Float64[Tensor, " N"]

    def some(self, rows: slice) -> "Rows":
        """Part of them."""
        return Rows(*(values[rows] for values in self))


class Mode(NamedTuple):
    """q(u) for one v, and how probable left-out rows are."""

    m: Float64[Tensor, "M P"]
    S: Float64[Tensor, "M M"]
    densities: Float64[Tensor, " N"]


@torch.enable_grad()
def fit_labels(model: DeepGP, h: Float64[Tensor, "N H"], y: Tensor) -> LeftOut:
    """Fits q(u) and the variance of the kernel.

    Args:
        model: Of one layer, in float64, with a likelihood of labels that has no parameters.
        h: What the layer is given.
        y: Labels.
    """
    (layer,), adapter = model.gp_layers, adapter_of(model.likelihood)
    v0 = free_variance(layer)
    assert v0 is not None
    with torch.no_grad():
        z, mu = layer.split(h)
        A, k = layer.whiten(h), layer.kernel(z, diag=True)
        mu = h.new_zeros(len(h), layer.num_outputs) if mu is None else mu
        rows = Rows(mu, y, A / v0.sqrt(), unexplained(A, k) / v0)
        mean = (k / v0).mean()
    some = rows.some(slice(0, len(h), -(-len(h) // MOST_ROWS)))
    best, chosen, found = -float("inf"), VARIANCES[0], None
    worse = 0
    for variance in VARIANCES:
        mode = _mode(adapter, some, variance / mean.item(), None if found is None else found.m)
        score = mode.densities.mean().item()
        found, worse = mode, 0 if score > best else worse + 1
        if score > best:
            best, chosen, kept = score, variance, mode
        if worse > ENOUGH:
            break
    v = chosen / mean.item()
    mode = kept if len(some.y) == len(y) else _mode(adapter, rows, v, kept.m)
    with torch.no_grad():
        set_variance(layer, torch.tensor(v, dtype=torch.float64))
        layer.q.assign(mode.m, mode.S.expand(mode.m.shape[1], -1, -1))
    return LeftOut(mode.densities, -mode.densities.mean().item())


def _mode(adapter: LikelihoodAdapter, rows: Rows, v: float, start: Tensor | None) -> Mode:
    """The most probable m, S, and densities of left-out rows."""
    M, P = rows.A.shape[1], rows.mu.shape[1]
    A = v**0.5 * rows.A
    m = (A.new_zeros(M, P) if start is None else start.clone()).requires_grad_()

    def objective() -> Tensor:
        return adapter.conditional_log_prob(rows.mu + A @ m, rows.y).sum() - 0.5 * m.square().sum()

    maximise([m], objective, NUM_STEPS)
    f = (rows.mu + A @ m).detach().requires_grad_()
    (slope,) = torch.autograd.grad(adapter.conditional_log_prob(f, rows.y).sum(), f)
    with torch.no_grad():
        f = f.detach()
        w = adapter.fisher_factors(f).square().sum(0).mean(1)  # [N]
        S = posterior_scale(A.T @ (w.unsqueeze(1) * A))
        c = (A @ S).square().sum(1)
        c = c / (1 - w * c).clamp_min(SMALLEST_REST)
        densities = log_density(adapter, rows.y, f - c.unsqueeze(1) * slope, c + v * rows.rest)
        return Mode(m.detach(), S, densities)
