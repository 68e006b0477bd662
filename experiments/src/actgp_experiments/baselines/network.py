"""The plain network of the deep GP's shape, and how it is trained: as stage 1 of ours, with the same rows held out.

NN:     variance = training error (the paper's baseline)
NN+TS:  variance = error on held-out rows (temperature scaling, Guo et al., 2017, for a Gaussian likelihood)
"""

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import Normal

from actgp.training.data import TensorBatches
from actgp.training.objectives import Evaluation
from actgp.training.stage import Schedule, Stage
from actgp_experiments.baselines.predictor import Settings, Training
from actgp_experiments.metrics import Predictive

Loss = Callable[[Tensor, Tensor], Tensor]  # of outputs and targets, for each row
SMALLEST_VARIANCE = 1e-6
ATTEMPTS, LOWER = 3, 0.3  # of training a network, and what each rate is multiplied by to give the next
CONSTANT = 0.95  # of the variance of held-out targets: who leaves more has learnt nothing


def build_network(input_dim: int, settings: Settings, outputs: int = 1, dropout: float = 0.0) -> nn.Sequential:
    """Units with softplus, then a narrow layer, for each layer; drawn with torch's global generator."""
    layers: list[nn.Module] = []
    for inputs, outputs_ in pairwise([input_dim] * settings.num_layers + [outputs]):
        layers += [nn.Linear(inputs, settings.units), nn.Softplus()]
        layers += [nn.Dropout(dropout)] if dropout else []
        layers += [nn.Linear(settings.units, outputs_)]
    return nn.Sequential(*layers)


def hold_out(num_rows: int, settings: Training, seed: int) -> tuple[Tensor, Tensor]:
    """Rows to train on, and rows to judge by."""
    rows = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))
    held = max(1, min(1_000, int(settings.validation * num_rows)))
    return rows[held:], rows[:held]


def train_network(
    network: nn.Module, X: Tensor, y: Tensor, rows: tuple[Tensor, Tensor], loss: Loss, settings: Settings, seed: int
) -> None:
    """Adam on minibatches; ends with the parameters that predicted the held-out rows best.

    At some rates some networks lose their way in the first steps, and predict a constant ever after. Then they start
    anew at a lower rate, as anyone would let them who looks.
    """
    start = copy.deepcopy(network.state_dict())
    for attempt in range(ATTEMPTS):
        network.load_state_dict(start)
        descend(network, X, y, rows, loss, settings, seed, settings.rate * LOWER**attempt)
        with torch.no_grad():
            left = squared_error(network(X[rows[1]]), y[rows[1]]).mean()
        if left < CONSTANT * y[rows[1]].var(correction=0):
            return


def descend(
    network: nn.Module,
    X: Tensor,
    y: Tensor,
    rows: tuple[Tensor, Tensor],
    loss: Loss,
    settings: Training,
    seed: int,
    rate: float,
) -> None:
    """Adam from where the network is; ends with the parameters that predicted the held-out rows best."""
    train, held = rows
    adam = torch.optim.Adam(network.parameters(), lr=rate, fused=True)

    def evaluate(X: Tensor, y: Tensor) -> Evaluation:
        value = loss(network(X), y).mean()
        return Evaluation(value, -value.detach())

    @torch.no_grad()
    def score() -> float:
        return -loss(network(X[held]), y[held]).mean().item()

    schedule = Schedule(settings.network_steps, settings.patience)
    stage = Stage("network", network, evaluate, [adam], schedule, score)
    batches = TensorBatches(X[train], y[train], settings.batch_size, torch.Generator().manual_seed(seed))
    network.train()
    stage.run(batches, lambda objective, rate=1.0: None, None, lambda: None)
    network.eval()


def squared_error(outputs: Float[Tensor, "N 1"], y: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """(f − y)²."""
    return (outputs[:, 0] - y).square()


class Network:
    """A deterministic network with one variance for all rows.

    Args:
        settings: Shape and training.
        seed: Of everything random.
        variance_from: The rows whose mean squared error is the variance.
    """

    def __init__(self, settings: Settings, seed: int, variance_from: Literal["training", "held-out"]) -> None:
        self.settings, self.seed, self.variance_from = settings, seed, variance_from

    @torch.random.fork_rng(devices=[])
    @torch.enable_grad()
    def fit(self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"]) -> None:
        torch.manual_seed(self.seed)
        self.network = build_network(X.shape[1], self.settings)
        train, held = hold_out(len(X), self.settings, self.seed)
        train_network(self.network, X, y, (train, held), squared_error, self.settings, self.seed)
        rows = train if self.variance_from == "training" else held
        with torch.no_grad():
            self.variance = squared_error(self.network(X[rows]), y[rows]).mean().clamp_min(SMALLEST_VARIANCE)

    @torch.no_grad()
    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        mean = self.network(X)[:, 0]
        return Normal(mean, self.variance.sqrt().expand_as(mean))
