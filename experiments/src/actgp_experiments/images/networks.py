"""Trained networks, kept in a folder: contestants that are made of the same network share it."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.persistence import archive
from actgp_experiments.baselines.network import descend, hold_out
from actgp_experiments.datasets import Images
from actgp_experiments.images.architectures import build_backbone, build_head, count_features
from actgp_experiments.images.settings import ImageSettings

KIND = "network"
ROWS = 500  # images at a time


@dataclass(frozen=True)
class Networks:
    """Networks of one configuration on one set of images.

    Attributes:
        images: What they are trained on.
        settings: Shape and training.
        folder: Where they are kept.
    """

    images: Images
    settings: ImageSettings
    folder: Path

    def trained(self, seed: int, dropout: float = 0.0) -> nn.Sequential:
        """Backbone and head, in evaluation mode: from the folder, or trained now."""
        network = self._new(seed, dropout)
        path = self._path(seed, dropout)
        if path.exists():
            network.load_state_dict(archive.read(path, KIND).tensors)
            return network.eval()
        images, settings = self.images, self.settings
        rows = hold_out(len(images.y_train), settings, seed)
        with torch.enable_grad():
            descend(network, images.X_train, images.y_train, rows, cross_entropy, settings, seed, settings.rate)
        path.parent.mkdir(parents=True, exist_ok=True)
        archive.write(path, KIND, {"configuration": asdict(settings)}, network.state_dict())
        return network

    def _new(self, seed: int, dropout: float) -> nn.Sequential:
        shape = self.images.X_train.shape[1:]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            backbone = build_backbone(shape[0])
            head = build_head(count_features(backbone, shape), self.settings.units, self.images.num_classes, dropout)
        return nn.Sequential(backbone, head)

    def _path(self, seed: int, dropout: float) -> Path:
        told = json.dumps([asdict(self.settings), dropout], sort_keys=True)
        digest = hashlib.sha256(told.encode()).hexdigest()[:12]
        return self.folder / f"{self.images.name}_{seed}_{digest}.network"


def cross_entropy(outputs: Float[Tensor, "N K"], y: Tensor) -> Float[Tensor, " N"]:
    """−log p(y) under softmax."""
    return nn.functional.cross_entropy(outputs, y, reduction="none")


@torch.no_grad()
def logits(network: nn.Module, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
    """A network's outputs, some images at a time."""
    return torch.cat([network(part) for part in X.split(ROWS)])
