"""How networks for images are trained, for each set of images."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NetworkRecipe:
    """SGD with Nesterov momentum and a one-cycle schedule (Smith and Topin, 2018), on augmented images.

    Attributes:
        units: Hidden units of each of the two dense blocks; None for one Linear.
        epochs: Passes over the training images.
        batch_size: Images of a minibatch.
        rate: The largest learning rate.
        decay: Weight decay, of weights and not of biases and normalisations.
        momentum: Of SGD.
        translation: Pixels by which images are moved at most, in either direction.
        flips: Whether half of the images are mirrored.
    """

    units: int | None
    epochs: int
    batch_size: int
    rate: float
    decay: float = 5e-4
    momentum: float = 0.9
    translation: int = 0
    flips: bool = False

    def __str__(self) -> str:
        """A part of a file's name."""
        units = "linear" if self.units is None else f"{self.units}units"
        augmentation = f"move{self.translation}{'flip' if self.flips else ''}"
        return f"{units}_{self.epochs}epochs_batch{self.batch_size}_rate{self.rate:g}_{augmentation}"


RECIPES = {
    "mnist": NetworkRecipe(128, 8, 128, 0.05, translation=2),
    "fashion_mnist": NetworkRecipe(128, 12, 128, 0.05, flips=True),
    "cifar10": NetworkRecipe(None, 14, 256, 0.3, translation=4, flips=True),
}
