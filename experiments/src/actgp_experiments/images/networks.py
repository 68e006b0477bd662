"""Trained networks, kept in a folder: contestants that are made of the same network share it."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.persistence import archive
from actgp_experiments.datasets import Images
from actgp_experiments.images.architectures import Standardise, build_backbone, build_head, count_features
from actgp_experiments.images.one_cycle import train
from actgp_experiments.images.recipes import NetworkRecipe
from actgp_experiments.images.settings import ImageSettings
from actgp_experiments.store import revision

KIND = "network"
ROWS = 500  # images at a time

Report = Callable[[int, float], None]


@dataclass(frozen=True)
class Rows:
    """What training images are used for.

    Attributes:
        train: Those that the network is trained on.
        calibration: Those by which temperatures and priors are chosen.
        choice: Those by which methods are compared before any is tested.
    """

    train: Tensor
    calibration: Tensor
    choice: Tensor


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

    @property
    def recipe(self) -> NetworkRecipe:
        """Of these images; parts of a set, such as "cifar10_subset", have the recipe of the whole."""
        recipes = self.settings.recipes
        return recipes[next(name for name in recipes if self.images.name.startswith(name))]

    def rows(self, seed: int) -> Rows:
        """The training images that the network of a seed is trained on, and those that it is not."""
        order = torch.randperm(len(self.images.y_train), generator=torch.Generator().manual_seed(seed))
        calibration, choice = self.settings.calibration, self.settings.choice
        held, end = order[:calibration], calibration + choice
        return Rows(order[end:], held, order[calibration:end])

    def trained(self, seed: int, dropout: float = 0.0, report: Report = lambda epoch, loss: None) -> nn.Sequential:
        """Backbone and head, in evaluation mode: from the folder, or trained now, from where that was interrupted."""
        network, path = self._new(seed, dropout), self._path(seed, dropout)
        if path.exists():
            network.load_state_dict(archive.read(path, KIND).tensors)
            return network.eval()
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {"recipe": asdict(self.recipe), "dropout": dropout, "seed": seed, "revision": revision()}
        rows = self.rows(seed).train
        with torch.enable_grad():
            X, y = self.images.X_train[rows], self.images.y_train[rows]
            train(network, X, y, self.recipe, seed, path.with_suffix(".unfinished"), report)
        archive.write(path, KIND, document, network.state_dict())
        return network

    def _new(self, seed: int, dropout: float) -> nn.Sequential:
        shape = self.images.X_train.shape[1:]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            backbone = build_backbone(shape[0])
            head = build_head(count_features(backbone, shape), self.recipe.units, self.images.num_classes, dropout)
        (first, *_) = backbone
        assert isinstance(first, Standardise)
        first.set_by(self.images.X_train)
        return nn.Sequential(backbone, head)

    def _path(self, seed: int, dropout: float) -> Path:
        held = self.settings.calibration + self.settings.choice
        told = json.dumps([asdict(self.recipe), len(self.images.y_train), held, dropout], sort_keys=True)
        digest = hashlib.sha256(told.encode()).hexdigest()[:8]
        name = f"{self.images.name}_{self.recipe}{f'_dropout{dropout:g}' if dropout else ''}_{digest}_seed{seed}"
        return self.folder / f"{name}.network"


@torch.no_grad()
def logits(network: nn.Module, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
    """A network's outputs, some images at a time."""
    return torch.cat([network(part) for part in X.split(ROWS)])


def cross_entropy(outputs: Float[Tensor, "N K"], y: Tensor) -> Float[Tensor, " N"]:
    """−log p(y) under softmax."""
    return nn.functional.cross_entropy(outputs, y, reduction="none")
