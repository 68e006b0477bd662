"""Ensembles of plain networks, as in the paper, and of networks with a variance (Lakshminarayanan et al., 2017)."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from actgp_experiments.baselines.network import (
    SMALLEST_VARIANCE,
    Network,
    build_network,
    hold_out,
    train_network,
)
from actgp_experiments.baselines.predictor import Settings, mixture
from actgp_experiments.metrics import Predictive

SEED_STRIDE = 1_000  # between members, so that no two cells of a grid share one


class NetworkEnsemble:
    """The equal mixture of independently trained networks, each with its training error as variance."""

    def __init__(self, settings: Settings, seed: int) -> None:
        seeds = (seed + SEED_STRIDE * (i + 1) for i in range(settings.members))
        self.members = [Network(settings, own, "training") for own in seeds]

    def fit(self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"]) -> None:
        for member in self.members:
            member.fit(X, y)

    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        parts = [member.predict(X) for member in self.members]
        return mixture(torch.stack([p.mean for p in parts]), torch.stack([p.variance for p in parts]))


class DeepEnsemble:
    """The equal mixture of networks with a mean and a variance each, trained on the Gaussian log-likelihood.

    Without the adversarial examples of the original.
    """

    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings, self.seed = settings, seed

    @torch.random.fork_rng(devices=[])
    @torch.enable_grad()
    def fit(self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"]) -> None:
        self.networks = []
        for i in range(self.settings.members):
            seed = self.seed + SEED_STRIDE * (i + 1)
            torch.manual_seed(seed)
            network = build_network(X.shape[1], self.settings, outputs=2)
            rows = hold_out(len(X), self.settings, seed)
            train_network(network, X, y, rows, _negative_log_likelihood, self.settings, seed)
            self.networks.append(network)

    @torch.no_grad()
    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        outputs = torch.stack([network(X) for network in self.networks])  # [K, N, 2]
        return mixture(outputs[..., 0], _variance(outputs))


def _variance(outputs: Tensor) -> Tensor:
    return softplus(outputs[..., 1]) + SMALLEST_VARIANCE


def _negative_log_likelihood(outputs: Float[Tensor, "N 2"], y: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    return -mixture(outputs[None, :, 0], _variance(outputs)[None]).log_prob(y)
