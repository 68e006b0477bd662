"""What all contestants that are made of one network share: the network, and its features of the training images."""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp_experiments.images.networks import ROWS, Networks
from actgp_experiments.images.settings import ImageSettings


class View(NamedTuple):
    """Images, and what the convolutions of a network make of them.

    Attributes:
        images: Some images.
        features: What enters the network's dense layers.
    """

    images: Float[Tensor, "N C H W"]
    features: Float[Tensor, "N D"]


class Labelled(NamedTuple):
    """Images with their classes.

    Attributes:
        view: The images.
        y: The classes.
    """

    view: View
    y: Tensor


@dataclass(frozen=True)
class Bench:
    """One network and its rows.

    Attributes:
        networks: Where it comes from.
        seed: Its seed.
    """

    networks: Networks
    seed: int

    @property
    def settings(self) -> ImageSettings:
        """Of the experiment."""
        return self.networks.settings

    @cached_property
    def network(self) -> nn.Sequential:
        """Convolutions and dense layers."""
        return self.networks.trained(self.seed)

    @property
    def head(self) -> nn.Sequential:
        """The dense layers."""
        head = self.network[1]
        assert isinstance(head, nn.Sequential)
        return head

    @cached_property
    def train(self) -> Labelled:
        """What the network was trained on."""
        return self._labelled(self.networks.rows(self.seed).train)

    @cached_property
    def calibration(self) -> Labelled:
        """What it was not trained on, and what temperatures and priors are chosen by."""
        return self._labelled(self.networks.rows(self.seed).calibration)

    @cached_property
    def choice(self) -> Labelled:
        """What else it was not trained on: by these methods are compared before any is tested."""
        return self._labelled(self.networks.rows(self.seed).choice)

    def view(self, images: Float[Tensor, "N C H W"]) -> View:
        """Images and their features."""
        return View(images, in_parts(self.network[0], images))

    def _labelled(self, rows: Tensor) -> Labelled:
        images = self.networks.images
        return Labelled(self.view(images.X_train[rows]), images.y_train[rows])


@torch.no_grad()
def in_parts(module: nn.Module, X: Tensor) -> Tensor:
    """A module's outputs, some rows at a time; pictures of many channels are faster with these last in memory."""
    images = X.ndim == 4 and X.shape[1] > 1
    layout = torch.channels_last if images else torch.contiguous_format
    module.to(memory_format=layout)  # type: ignore[call-overload]
    return torch.cat([module(part.contiguous(memory_format=layout)) for part in X.split(ROWS)])


class Stopwatch:
    """CPU seconds of this process; of one thread, so that what runs beside it does not count.

    Attributes:
        seconds: Between the beginning and the end of a `with` block.
    """

    seconds = 0.0

    def __enter__(self) -> "Stopwatch":
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.process_time() - self._began
