"""The last-layer Laplace approximation around the plain network, by laplace-torch (Daxberger et al., 2021)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Normal
from torch.utils.data import DataLoader, TensorDataset

from actgp_experiments.baselines.network import Network
from actgp_experiments.baselines.predictor import Settings
from actgp_experiments.metrics import Predictive

try:
    import laplace
except ImportError:  # an optional peer
    laplace = None

STEPS = 100
RATE = 0.1


def require_laplace() -> Any:
    """laplace-torch's `Laplace`, if it is installed."""
    if laplace is None:
        raise ImportError("this baseline needs laplace-torch, got none of it; install it with pip")
    return laplace.Laplace


def maximise_evidence(posterior: Any, log_noise: Float[Tensor, "1"] | None = None, steps: int = STEPS) -> None:
    """Sets the prior precision, and the noise where there is any, by Adam on the marginal likelihood."""
    log_prior = torch.zeros(1, requires_grad=True)
    adam = torch.optim.Adam([log_prior] if log_noise is None else [log_prior, log_noise], lr=RATE)
    for _ in range(steps):
        adam.zero_grad()
        noise = None if log_noise is None else log_noise.exp()
        loss = -posterior.log_marginal_likelihood(log_prior.exp(), noise)
        loss.backward()
        adam.step()


class LastLayerLaplace:
    """A full Gauss–Newton posterior of the last layer; prior precision and noise by the marginal likelihood."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.laplace = require_laplace()
        self.inner = Network(settings, seed, "training")

    @torch.enable_grad()
    def fit(self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"]) -> None:
        self.inner.fit(X, y)
        self.posterior: Any = self.laplace(
            self.inner.network,
            "regression",
            subset_of_weights="last_layer",
            hessian_structure="full",
            sigma_noise=self.inner.variance.sqrt().item(),
        )
        self.posterior.fit(DataLoader(TensorDataset(X, y[:, None]), batch_size=1_000))
        log_noise = self.inner.variance.sqrt().log().reshape(1).requires_grad_()
        maximise_evidence(self.posterior, log_noise)
        self.noise = log_noise.exp().item() ** 2

    @torch.no_grad()
    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        mean, variance = self.posterior(X)
        return Normal(mean[:, 0], (variance[:, 0, 0] + self.noise).sqrt())
