"""What all contestants share, the same for every set of images."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from actgp_experiments.images.recipes import RECIPES, NetworkRecipe


@dataclass(frozen=True)
class ImageSettings:
    """The protocol.

    Attributes:
        recipes: How networks are trained, by the name of the images.
        calibration: Training images that networks are not trained on, by which temperatures and priors are chosen.
        choice: Others of them, by which whoever writes an experiment chooses between methods.
        members: Networks of an ensemble.
        dropout: The rate of dropout, of the networks that have it.
        samples: Masks of dropout, or paths of the hybrid.
        units: Inducing variables of each layer of the hybrid.
        num_inducing: Inducing points of the GP around a network.
        head_steps: Steps of training the hybrid's layers as a network, behind the trained convolutions.
        posterior_steps: Steps of training its posterior on the ELBO.
        batch_size: Images of its minibatches.
        variational_epochs: Passes of training VBLL.
        variational_rate: Its learning rate.
        variational_batch: Rows of its minibatches.
        train_images: The most images to train on.
        test_images: The most to judge by.
        shifted_images: The most to judge by at each level of each shift.
    """

    recipes: Mapping[str, NetworkRecipe] = field(default_factory=lambda: dict(RECIPES))
    calibration: int = 2_000
    choice: int = 1_000
    members: int = 5
    dropout: float = 0.1
    samples: int = 10
    units: int = 128
    num_inducing: int = 200
    head_steps: int = 600
    posterior_steps: int = 600
    batch_size: int = 256
    variational_epochs: int = 10
    variational_rate: float = 3e-3
    variational_batch: int = 256
    train_images: int = 60_000
    test_images: int = 10_000
    shifted_images: int = 2_000


def _shortened(recipe: NetworkRecipe) -> NetworkRecipe:
    return replace(recipe, epochs=2)


SETTINGS = {
    "quick": ImageSettings(
        recipes={name: _shortened(recipe) for name, recipe in RECIPES.items()},
        calibration=500,
        choice=0,
        members=2,
        head_steps=200,
        posterior_steps=200,
        train_images=6_000,
        test_images=500,
        shifted_images=500,
    ),
    "usual": ImageSettings(),
}
