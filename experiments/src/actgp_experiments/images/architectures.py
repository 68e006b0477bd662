"""The paper's networks for images: convolutions, then two blocks of dense layers.

    images of one colour    convolutions of 32 and 64 filters of 5 × 5, each with a pooling of 2: 1,024 features
    images of three         a residual network of three blocks of 16, 32 and 64 filters (He et al., 2016): 64 features
    dense                   [128 units with softplus, 10 outputs] twice

The convolutions have ReLU: with softplus, whose outputs are far from zero mean, they learn several times more slowly.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

WIDTHS = (16, 32, 64)


class ResidualBlock(nn.Module):
    """x ↦ ReLU(x + F(x)), with a convolution of size one beside F where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = inputs == outputs and stride == 1
        self.beside = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K h w"]:
        return torch.relu(self.beside(X) + self.inner(X))


def build_backbone(channels: int) -> nn.Sequential:
    """What turns images into features; drawn with torch's global generator."""
    return convolutions(channels) if channels == 1 else residual(channels)


def convolutions(channels: int) -> nn.Sequential:
    """Two convolutions with pooling."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((channels, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 5), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten())


def residual(channels: int) -> nn.Sequential:
    """A convolution and three residual blocks, averaged over the image."""
    first = [nn.Conv2d(channels, WIDTHS[0], 3, padding=1, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU()]
    inputs = (WIDTHS[0], *WIDTHS)
    blocks = [ResidualBlock(a, b, 1 if i == 0 else 2) for i, (a, b) in enumerate(zip(inputs, WIDTHS, strict=False))]
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def build_head(num_features: int, units: int, num_classes: int, dropout: float = 0.0) -> nn.Sequential:
    """Two blocks of softplus units and a narrow layer, dropout behind the units."""
    layers: list[nn.Module] = []
    for inputs in (num_features, num_classes):
        layers += [nn.Linear(inputs, units), nn.Softplus()]
        layers += [nn.Dropout(dropout)] if dropout else []
        layers += [nn.Linear(units, num_classes)]
    return nn.Sequential(*layers)


@torch.no_grad()
def count_features(backbone: nn.Module, shape: Sequence[int]) -> int:
    """D, what a backbone makes of images of a shape [C, H, W]."""
    was_training = backbone.training
    found = backbone.eval()(torch.zeros(1, *shape)).shape[1]
    backbone.train(was_training)
    return int(found)
