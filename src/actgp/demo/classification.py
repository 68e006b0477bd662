"""Two classes in two dimensions: networks of some depths, and the deep GPs that they become.

The network is the deep GP's own, as it was at the end of the first stage, trained on the cross-entropy.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from gpytorch.likelihoods import BernoulliLikelihood
from sklearn.metrics import accuracy_score, log_loss
from torch import Tensor

from actgp.demo.data import Data, bananas
from actgp.models.build import Layers, deep_gp
from actgp.models.edge import forget_beyond
from actgp.training import Recipe, fit

NUM_INDUCING = 64
RECIPE = Recipe(network_steps=600, num_steps=300, objective="elbo", kl_weight=1.0)
TRAIN, TEST = bananas(400, seed=0), bananas(2_000, seed=1)
DEPTHS = (1, 3)
COLUMNS = ("layers", "model", "accuracy", "log-likelihood")


class Score(NamedTuple):
    """How a model does on held-out data.

    Attributes:
        depth: Its layers.
        model: "network" or "deep GP".
        accuracy: On held-out data.
        log_likelihood: On held-out data.
        probability: p(y = 1) at points, [N] for [N, 2].
    """

    depth: int
    model: str
    accuracy: float
    log_likelihood: float
    probability: Callable[[Tensor], Tensor]

    @property
    def row(self) -> tuple[str, ...]:
        """A row of a table with `COLUMNS`."""
        return str(self.depth), self.model, f"{self.accuracy:.1%}", f"{self.log_likelihood:.3f}"


def scores() -> Iterator[Score]:
    """The scores of the demo's models, one at a time."""
    return compare(TRAIN, TEST, NUM_INDUCING, RECIPE)


def compare(train: Data, test: Data, num_inducing: int, recipe: Recipe) -> Iterator[Score]:
    """Trains a model of each depth, one at a time, and scores it as a network and as a deep GP.

    Args:
        train: Data, with inputs in standard units.
        test: Held-out data.
        num_inducing: The inducing variables of each layer.
        recipe: How it is trained.
    """
    for depth in DEPTHS:
        for model, probability in _readings(depth, train, num_inducing, recipe).items():
            y, p = test.y.numpy(), probability(test.X).numpy()
            yield Score(depth, model, float(accuracy_score(y, p > 0.5)), -float(log_loss(y, p)), probability)


def _readings(depth: int, data: Data, num_inducing: int, recipe: Recipe) -> dict[str, Callable[[Tensor], Tensor]]:
    """p(y = 1) of one trained model, read in two ways."""
    generator = torch.Generator().manual_seed(0)
    model = deep_gp(
        2,
        num_layers=depth,
        num_inducing=num_inducing,
        # units alone, as in the paper: in the plane they explain the prior
        layers=Layers(kernel="matched", num_points=0),
        likelihood=BernoulliLikelihood(),
        generator=generator,
    ).double()
    network = fit(model, *data, recipe, generator=generator).network
    assert network is not None
    forget_beyond(model, data.X)
    return {
        "network": torch.no_grad()(lambda X: torch.special.ndtr(network(X))),
        "deep GP": lambda X: model.predict(X).mean,
    }
