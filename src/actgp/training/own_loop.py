"""For a training loop of one's own: what `fit` does before the first step of each stage.

start_network(model, X)         a new model's means are zero in all layers, where no gradient leads away from zero
… steps on the error of model(X) …
start_posterior(model, X, y)    S in closed form, with the scales that suit it (`warm_start`)
… steps on −model.elbo(X, y, num_data=N) …
"""

import torch
from torch import Tensor

from actgp.models import DeepGP
from actgp.training.calibrate import bound_noise_by_rounding
from actgp.training.data import TensorBatches, checked
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
    finally:
        model.train(training)


def _generator(given: torch.Generator | None) -> torch.Generator:
    """One of our own, on the CPU, which the given one seeds."""
    device = "cpu" if given is None else given.device
    return torch.Generator().manual_seed(int(torch.randint(LARGEST_SEED, (), generator=given, device=device)))


def _deep(model: DeepGP) -> DeepGP:
    if not isinstance(model, DeepGP):
        raise TypeError(f"model must be a DeepGP or an SVGP, got {type(model).__name__}; build one by actgp.deep_gp")
    return model
