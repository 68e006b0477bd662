"""For a training loop of one's own: what `fit` does before the first step of each stage, and its losses.

start_network(model, X)         a new model's means are zero in all layers, where no gradient leads away from zero
… steps on the error of model(X), or on Loss(model, N, "network") …
start_posterior(model, X, y)    S in closed form, with the scales that suit it (`warm_start`)
… steps on −model.elbo(X, y, num_data=N), or on Loss(model, N) …

Where processes are joined in a group of `torch.distributed`, each of them calls these functions, with the same rows.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from actgp import checks
from actgp.likelihoods import targets
from actgp.models import DeepGP
from actgp.several import GivenRows
from actgp.training import ranks
from actgp.training.calibrate import bound_noise_by_rounding
from actgp.training.data import TensorBatches, checked
from actgp.training.objectives import network_objective, posterior_objective, prior_share
from actgp.training.recipe import Recipe
from actgp.training.stages import draw_means, undone_if_broken_off
from actgp.training.warm_start import place_points, warm_start

ROWS = 512  # that go through the layers at a time
LARGEST_SEED = 2**62


def start_network(model: DeepGP, X: Tensor, *, generator: torch.Generator | None = None) -> None:
    """Draws the random weights from which a new model learns as a network; a model that has weights keeps them.

    Args:
        model: Changed in place.
        X: Inputs of about the spread that it will be trained on, some hundred rows or all.
        generator: Source of randomness; torch's global one by default.

    Example:
        >>> import actgp, torch
        >>> X = torch.randn(100, 4)
        >>> model = actgp.deep_gp(input_dim=4, num_layers=2, num_inducing=20)
        >>> actgp.start_network(model, X)
        >>> loss = torch.nn.functional.mse_loss(model(X), X.sum(1))
        >>> loss.backward()
    """
    own = _generator(generator)
    _deep(model).check_inputs(X)
    draw_means(model, TensorBatches(X, X, ROWS, own), own)
    ranks.copy_first(model.state_dict().values())


def start_posterior(
    model: DeepGP, X: Tensor, y: Tensor, recipe: Recipe | None = None, *, generator: torch.Generator | None = None
) -> None:
    """Sets S, kernel variances, noise and inducing points to what suits the model as a network; its means stay.

    Without this, the S that a model is built with is far too wide for a network that is trained, and steps on the
    ELBO lose most of what the network has learnt before they win it back.

    Args:
        model: Changed in place: trained as a network, on standardised targets.
        X: The rows that it was trained on.
        y: Their targets.
        recipe: Of which the objective and the weight of the KL matter; the ELBO by default.
        generator: Source of randomness; torch's global one by default.

    Example:
        >>> import actgp, torch
        >>> X = torch.randn(100, 4)
        >>> model = actgp.deep_gp(input_dim=4, num_layers=2, num_inducing=20)
        >>> actgp.start_network(model, X)  # and train it as a network, then:
        >>> actgp.start_posterior(model, X, X.sum(1) / 2)
        >>> loss = -model.elbo(X, X.sum(1) / 2, num_data=100)
    """
    recipe = Recipe(objective="elbo") if recipe is None else recipe
    own = _generator(generator)
    batches = TensorBatches(*checked(_deep(model), X, y), ROWS, own)
    training = model.training
    model.eval()
    try:
        with undone_if_broken_off(model):
            place_points(model, batches, own.initial_seed())
            bound_noise_by_rounding(model, batches, None)
            warm_start(model, batches, recipe, recipe.weight(judged=False))
            ranks.copy_first(model.state_dict().values())
    finally:
        model.train(training)


class Loss(nn.Module):
    """What a stage of `fit` descends, as one module: loss(X, y), for DDP, Fabric or Accelerate to go around.

    Ranks that draw from generators in the same state sample other paths nevertheless.

    Args:
        model: A part of it: parameters of the loss are those of the model.
        num_data: N, the rows of the whole data set.
        stage: "network", on the composed means; or "posterior", on the objective of the recipe.
        recipe: Of which the objective, the weight of the KL and the number of paths matter; the ELBO by default.

    Example:
        >>> import actgp, torch
        >>> loss = actgp.Loss(actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=8), num_data=1_000)
        >>> loss(torch.randn(50, 2), torch.randn(50)).backward()
    """

    def __init__(
        self,
        model: DeepGP,
        num_data: int,
        stage: Literal["network", "posterior"] = "posterior",
        recipe: Recipe | None = None,
    ) -> None:
        super().__init__()
        self.model, self.num_data = _deep(model), checks.integer(num_data, "num_data", minimum=1)
        self.stage = checks.choice(stage, "stage", ("network", "posterior"))
        self.recipe = Recipe(objective="elbo") if recipe is None else recipe

    def forward(self, X: GivenRows, y: Tensor) -> Tensor:
        """The loss of a minibatch, for the network its error, for the posterior the negative objective of N rows."""
        model = self.model
        rows = model.rows(X)
        y = targets(model.likelihood, y, len(rows), model.num_outputs, model.dtype)
        prior = prior_share(model, self.num_data)
        if self.stage == "network":
            return network_objective(model, rows, y, prior).loss
        weight = self.recipe.weight(judged=False)
        return posterior_objective(model, rows, y, self.num_data, self.recipe, weight, None, prior).loss


def _generator(given: torch.Generator | None) -> torch.Generator:
    """One of our own, on the CPU, which the given one seeds."""
    device = "cpu" if given is None else given.device
    return torch.Generator().manual_seed(int(torch.randint(LARGEST_SEED, (), generator=given, device=device)))


def _deep(model: DeepGP) -> DeepGP:
    if not isinstance(model, DeepGP):
        raise TypeError(f"model must be a DeepGP or an SVGP, got {type(model).__name__}; build one by actgp.deep_gp")
    return model
