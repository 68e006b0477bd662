"""What every contestant is: it is fitted to a table, and predicts a distribution for each new row."""

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily, Normal

from actgp_experiments.metrics import Predictive


class Predictor(Protocol):
    """A model of one target. Inputs and targets are standardised, in float32."""

    def fit(self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"]) -> None:
        """Trains on rows."""

    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        """A distribution for each row: batch shape [N]."""


class Training(Protocol):
    """How a network is trained: steps, rows of a minibatch, patience, and the part of the rows that is held out."""

    @property
    def network_steps(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def patience(self) -> int: ...
    @property
    def validation(self) -> float: ...


@dataclass(frozen=True)
class Settings:
    """What all contestants share, the same for every data set.

    Attributes:
        num_layers: Layers of units followed by narrow layers as wide as the data.
        units: Hidden units, or inducing variables, of each layer.
        network_steps: Steps of training a network.
        posterior_steps: Steps of training a posterior.
        exact_steps: Steps of L-BFGS for models with an exact objective.
        batch_size: Rows of a minibatch.
        rate: Adam's learning rate at the start.
        patience: Steps without progress after which rates are cut.
        validation: The part of the training rows that is held out, to end training with what predicts them best.
        members: Networks of an ensemble.
        dropout: The rate of dropout.
        samples: Paths of a prediction.
        largest_exact: Rows up to which an exact GP is fitted.
    """

    num_layers: int = 3
    units: int = 128
    network_steps: int = 5_000
    posterior_steps: int = 2_000
    exact_steps: int = 100
    batch_size: int = 128
    rate: float = 0.01
    patience: int = 1_000
    validation: float = 0.1
    members: int = 5
    dropout: float = 0.1
    samples: int = 50
    largest_exact: int = 2_000


def mixture(
    means: Float[Tensor, "S N"], variances: Float[Tensor, "S N"], weights: Float[Tensor, " S"] | None = None
) -> Predictive:
    """The mixture of S normals for each of N rows, an equal one where no weights are given."""
    if len(means) == 1:
        return Normal(means[0], variances[0].sqrt(), validate_args=False)
    shares = torch.ones_like(means.T) if weights is None else weights.expand_as(means.T)
    components = Normal(means.T, variances.sqrt().T, validate_args=False)
    return MixtureSameFamily(Categorical(shares, validate_args=False), components, validate_args=False)
