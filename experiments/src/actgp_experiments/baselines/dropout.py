"""A network with dropout in training and prediction (Gal and Ghahramani, 2016).

They choose rate and noise by validation; here, as in the paper, the rate is fixed and the noise is the training error.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from actgp_experiments.baselines.network import SMALLEST_VARIANCE, build_network, hold_out, squared_error, train_network
from actgp_experiments.baselines.predictor import Settings, mixture
from actgp_experiments.metrics import Predictive


class DropoutNetwork:
    """A mixture over masks of units; around each, the training error of their mean."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings, self.seed = settings, seed

    @torch.random.fork_rng(devices=[])
    @torch.enable_grad()
    def fit(self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"]) -> None:
        torch.manual_seed(self.seed)
        self.network = build_network(X.shape[1], self.settings, dropout=self.settings.dropout)
        rows = hold_out(len(X), self.settings, self.seed)
        train_network(self.network, X, y, rows, squared_error, self.settings, self.seed)
        mean = self._passes(X[rows[0]]).mean(0)
        self.variance = (mean - y[rows[0]]).square().mean().clamp_min(SMALLEST_VARIANCE)

    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        means = self._passes(X)
        return mixture(means, self.variance.expand_as(means))

    @torch.random.fork_rng(devices=[])
    @torch.no_grad()
    def _passes(self, X: Tensor) -> Float[Tensor, "S N"]:
        torch.manual_seed(self.seed)
        self.network.train()
        means = torch.stack([self.network(X)[:, 0] for _ in range(self.settings.samples)])
        self.network.eval()
        return means
