"""The last layer in closed form: for Gaussian noise, and what the layers below put out by their means.

With rows a_i of A, residuals r of y from the prior mean, the noise σ² and the weight w of the KL, q(v) is best at

    m = (I + AᵀA / (w σ²))⁻¹ Aᵀ r / (w σ²),     S Sᵀ = (I + AᵀA / (w σ²))⁻¹

Where only some variables have means, only their columns of A count for m; where q is independent between blocks, only
the blocks of the precision for S. For one layer and w = 1 this is the q(u) of Titsias' bound.
"""

import torch
from gpytorch.likelihoods import GaussianLikelihood

from actgp.layers import mean_function
from actgp.linalg import block_posterior_scale, posterior_scale
from actgp.models import DeepGP
from actgp.training.data import Batches


def check_solvable(model: DeepGP) -> None:
    """Refuses models whose last layer has no closed form."""
    if type(model.likelihood) is not GaussianLikelihood:
        raise ValueError(
            f"solve=True needs plain Gaussian noise, got {type(model.likelihood).__name__}; build the model with a "
            "gpytorch.likelihoods.GaussianLikelihood, or leave solve out"
        )
    if not all(p.requires_grad for p in model.gp_layers[-1].q.parameters()):
        raise ValueError(
            "solve=True sets q(u) of the last layer, got one that is frozen; free it by requires_grad_(), or leave "
            "solve out"
        )


@torch.no_grad()
def solve_last_layer(model: DeepGP, batches: Batches, kl_weight: float) -> None:
    """Sets m and S of the last layer, by one pass over the data."""
    layer = model.gp_layers[-1]
    q = layer.q
    M, P = q.mean.shape
    information = torch.zeros(M, M, dtype=torch.float64, device=q.mean.device)
    projected = torch.zeros(M, P, dtype=torch.float64, device=q.mean.device)
    for X, y in batches.all():
        h = model.hidden_means(X)[-1]
        A = layer.whiten(h).double()
        prior = mean_function(layer)(h).double() - A @ q.mean.double()
        information += A.T @ A
        projected += A.T @ (y.reshape(len(X), P).double() - prior)
    precision = 1 / (kl_weight * model.likelihood.noise.double())
    used = q.num_means
    factor = posterior_scale(precision * information[:used, :used])
    mean = torch.zeros_like(projected)
    mean[:used] = factor @ (factor.T @ (precision * projected[:used]))
    S = block_posterior_scale(precision * information, q.blocks)
    q.assign(mean.to(q.mean), S.expand(P, M, M).to(q.mean))
