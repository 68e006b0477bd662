"""What all contestants share, the same for every set of images."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ImageSettings:
    """A protocol that two cores can afford, by default.

    Attributes:
        units: Hidden units, or inducing variables, of each dense layer.
        network_steps: Steps of training a network.
        head_steps: Steps of training the hybrid's layers as a network, behind the trained convolutions.
        posterior_steps: Steps of training its posterior on the ELBO.
        batch_size: Images of a minibatch.
        rate: Adam's learning rate at the start.
        patience: Steps without progress after which rates are cut.
        validation: The part of the training images, at most 1,000 of them, that is held out.
        members: Networks of an ensemble.
        dropout: The rate of dropout behind dense units.
        samples: Paths of a prediction, or masks of dropout.
        train_images: The most images to train on.
        test_images: The most to judge by, at each level of each shift.
    """

    units: int = 128
    network_steps: int = 600
    head_steps: int = 400
    posterior_steps: int = 500
    batch_size: int = 256
    rate: float = 1e-3
    patience: int = 300
    validation: float = 0.1
    members: int = 5
    dropout: float = 0.1
    samples: int = 10
    train_images: int = 12_000
    test_images: int = 2_000


SETTINGS = {
    "quick": ImageSettings(
        network_steps=240, head_steps=200, posterior_steps=200, members=2, train_images=6_000, test_images=500
    ),
    "usual": ImageSettings(),
    "full": ImageSettings(
        network_steps=2_400,  # ten passes over 60,000 images
        head_steps=1_500,
        posterior_steps=1_500,
        patience=600,
        train_images=60_000,
        test_images=10_000,
    ),
}
