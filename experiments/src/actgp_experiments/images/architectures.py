"""Networks for images: convolutions that make features, and dense layers behind them.

    images of one colour    the paper's convolutions of 32 and 64 filters of 5 × 5, each with a pooling of 2: 1,024
                            features; its dense layers, [128 units with softplus, 10 outputs] twice
    images of three         a compact residual network with batch normalisation (after He et al., 2016): four
                            convolutions of 3 × 3 that halve the image three times, residual blocks behind the last two,
                            the largest value of each filter; one Linear, 51 million multiplications an image

The convolutions have ReLU: with softplus, whose outputs are far from zero mean, they learn several times more slowly.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

PAPERS_WIDTHS = (32, 64)
WIDTHS = (16, 48, 96, 192)


class Standardise(nn.Module):
    """Images less their mean, divided by their standard deviation, by channels."""

    mean: Tensor
    sd: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("sd", torch.ones(channels, 1, 1))

    def set_by(self, images: Float[Tensor, "N C H W"]) -> None:
        """Takes mean and standard deviation from images."""
        self.mean.copy_(images.mean((0, 2, 3)).view_as(self.mean))
        self.sd.copy_(images.std((0, 2, 3)).view_as(self.sd))

    def forward(self, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N C H W"]:
        return (X - self.mean) / self.sd


class Residual(nn.Module):
    """x ↦ x + F(x)."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N C H W"]:
        return X + self.inner(X)


def build_backbone(channels: int) -> nn.Sequential:
    """What turns images into features; drawn with torch's global generator."""
    return convolutions(channels) if channels == 1 else residual(channels)


def convolutions(channels: int) -> nn.Sequential:
    """Two convolutions with pooling."""
    layers: list[nn.Module] = [Standardise(channels)]
    for inputs, outputs in pairwise((channels, *PAPERS_WIDTHS)):
        layers += [nn.Conv2d(inputs, outputs, 5), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten())


def residual(channels: int) -> nn.Sequential:
    """The compact residual network up to its features."""
    layers: list[nn.Module] = [Standardise(channels), *_convolution(channels, WIDTHS[0])]
    for i, (inputs, outputs) in enumerate(pairwise(WIDTHS)):
        layers += _convolution(inputs, outputs, nn.MaxPool2d(2))
        layers += (
            [Residual(nn.Sequential(*_convolution(outputs, outputs), *_convolution(outputs, outputs)))] if i else []
        )
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten())


def _convolution(inputs: int, outputs: int, *pooling: nn.Module) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), *pooling, nn.BatchNorm2d(outputs), nn.ReLU()]


def build_head(num_features: int, units: int | None, num_classes: int, dropout: float = 0.0) -> nn.Sequential:
    """Two blocks of softplus units and a narrow layer, dropout behind the units; without units one Linear.

    Args:
        num_features: What enters.
        units: Hidden units of each block; None for a Linear alone, with dropout before it.
        num_classes: What leaves.
        dropout: Its rate.
    """
    drop = [nn.Dropout(dropout)] if dropout else []
    if units is None:
        return nn.Sequential(*drop, nn.Linear(num_features, num_classes))
    layers: list[nn.Module] = []
    for inputs in (num_features, num_classes):
        layers += [nn.Linear(inputs, units), nn.Softplus(), *drop, nn.Linear(units, num_classes)]
    return nn.Sequential(*layers)


@torch.no_grad()
def count_features(backbone: nn.Module, shape: Sequence[int]) -> int:
    """D, what a backbone makes of images of a shape [C, H, W]."""
    was_training = backbone.training
    found = backbone.eval()(torch.zeros(1, *shape)).shape[1]
    backbone.train(was_training)
    return int(found)
