"""For a teacher that is no deep GP: one that stands in for it, trained on its means."""

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.distil.teacher import Answers, Labels
from actgp.models import DeepGP, deep_gp
from actgp.training import Recipe, fit

NUM_LAYERS, NUM_INDUCING = 2, 128
RECIPE = Recipe(network_steps=1_000, num_steps=50, validation=0.0, num_samples=1, use_all_rows=False)
TINY = 1e-6


def stand_in(asked: Float[Tensor, "Q D"], answers: Answers, generator: torch.Generator) -> DeepGP:
    """A deep GP whose means are near the teacher's: of y, or of the logarithms of probabilities."""
    if isinstance(answers, Labels):
        logits = answers.probabilities.clamp_min(TINY).log()
        means = logits - logits.mean(1, keepdim=True)
    else:
        means = answers.mean()
    model = deep_gp(asked.shape[1], means.shape[1], NUM_LAYERS, min(NUM_INDUCING, len(asked)), generator=generator)
    fit(model, asked.float(), means, RECIPE, generator=generator, progress=False)
    return model.to(asked.dtype)
