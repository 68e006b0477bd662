"""Training: stages, a closed form around networks, warm start, natural gradients, checkpoints, progress."""

from actgp.training.fit import fit
from actgp.training.natural import NaturalGradient
from actgp.training.objectives import log_prior
from actgp.training.own_loop import Loss, start_network, start_posterior
from actgp.training.recipe import FitResult, Recipe
from actgp.training.stage import Step
from actgp.training.warm_start import warm_start

__all__ = [
    "FitResult",
    "Loss",
    "NaturalGradient",
    "Recipe",
    "Step",
    "fit",
    "log_prior",
    "start_network",
    "start_posterior",
    "warm_start",
]
