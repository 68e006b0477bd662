"""The contestants, by the names that tables use: each is fitted to images, and gives probabilities of classes.

NN            the paper's network, trained on the cross-entropy
NN+Dropout    with dropout behind dense units in training and prediction (Gal and Ghahramani, 2016)
NN+TS         softmax(f / T), T by the likelihood of held-out images (Guo et al., 2017)
NN Ensemble   the equal mixture of networks (Lakshminarayanan et al., 2017)
Laplace       around the last layer of the network, by laplace-torch (Daxberger et al., 2021)
ADGP          the network's convolutions, and a deep GP in place of its dense layers, trained on the ELBO
convert       a GP around the whole network, its logits softened by held-out images
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from actgp.convert import convert, soften
from actgp.models import hybrid
from actgp.training import Recipe, fit
from actgp_experiments.baselines.ensemble import SEED_STRIDE
from actgp_experiments.baselines.last_layer_laplace import maximise_evidence, require_laplace
from actgp_experiments.baselines.network import hold_out
from actgp_experiments.images.networks import ROWS, Networks, cross_entropy, logits

COLDEST, HOTTEST = -3.0, 3.0  # log T
HEAD_RATE = 3e-3  # of a head on fixed features, in both stages


class Classifier(Protocol):
    """A model of images."""

    def fit(self) -> None:
        """Trains on the images that it was given when it was built."""

    def probabilities(self, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
        """Of each class, for each image."""


class PlainNetwork:
    """The network, with a temperature of one or of the held-out images' choice.

    Args:
        networks: Where networks come from.
        seed: Of everything random.
        scaled: Whether to choose the temperature.
    """

    def __init__(self, networks: Networks, seed: int, *, scaled: bool) -> None:
        self.networks, self.seed, self.scaled = networks, seed, scaled
        self.temperature = 1.0

    def fit(self) -> None:
        self.network = self.networks.trained(self.seed)
        if not self.scaled:
            return
        images = self.networks.images
        _, held = hold_out(len(images.y_train), self.networks.settings, self.seed)
        outputs, y = logits(self.network, images.X_train[held]).double(), images.y_train[held]

        def loss(log_temperature: float) -> float:
            return cross_entropy(outputs / torch.tensor(log_temperature).exp(), y).mean().item()

        best = minimize_scalar(loss, bounds=(COLDEST, HOTTEST), method="bounded").x
        self.temperature = torch.tensor(float(best)).exp().item()

    def probabilities(self, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
        return (logits(self.network, X) / self.temperature).softmax(-1)


class Dropout:
    """The mixture over masks of dense units; the convolutions, which have no dropout, run once."""

    def __init__(self, networks: Networks, seed: int) -> None:
        self.networks, self.seed = networks, seed

    def fit(self) -> None:
        self.network = self.networks.trained(self.seed, self.networks.settings.dropout)

    @torch.no_grad()
    def probabilities(self, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
        backbone, head = self.network
        features = logits(backbone, X)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            head.train()
            passes = [head(features).softmax(-1) for _ in range(self.networks.settings.samples)]
            head.eval()
        return torch.stack(passes).mean(0)


class Ensemble:
    """The network and others with seeds of their own."""

    def __init__(self, networks: Networks, seed: int) -> None:
        self.networks = networks
        self.seeds = [seed + SEED_STRIDE * i for i in range(networks.settings.members)]

    def fit(self) -> None:
        self.members = [self.networks.trained(seed) for seed in self.seeds]

    def probabilities(self, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
        return torch.stack([logits(member, X).softmax(-1) for member in self.members]).mean(0)


class Laplace:
    """A full Gauss–Newton posterior of the last layer; its prior precision by the marginal likelihood; the probit."""

    def __init__(self, networks: Networks, seed: int) -> None:
        self.laplace = require_laplace()
        self.networks, self.seed = networks, seed

    @torch.enable_grad()
    def fit(self) -> None:
        images = self.networks.images
        network = self.networks.trained(self.seed)
        self.posterior: Any = self.laplace(
            network, "classification", subset_of_weights="last_layer", hessian_structure="full"
        )
        self.posterior.fit(DataLoader(TensorDataset(images.X_train, images.y_train), batch_size=ROWS))
        maximise_evidence(self.posterior)

    @torch.no_grad()
    def probabilities(self, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
        return torch.cat([self.posterior(part, link_approx="probit") for part in X.split(ROWS)])


class Hybrid:
    """The network's convolutions, which stay as they are, and two GP layers on what they give."""

    def __init__(self, networks: Networks, seed: int) -> None:
        self.networks, self.seed = networks, seed

    def fit(self) -> None:
        images, settings = self.networks.images, self.networks.settings
        g = torch.Generator().manual_seed(self.seed)
        backbone: nn.Module = self.networks.trained(self.seed)[0].requires_grad_(False)
        self.model = hybrid(backbone, images.X_train, images.num_classes, num_inducing=settings.units, generator=g)
        recipe = Recipe(
            network_steps=settings.head_steps,
            num_steps=settings.posterior_steps,
            objective="elbo",
            network_rate=HEAD_RATE,
            learning_rate=HEAD_RATE,
            batch_size=settings.batch_size,
            patience=settings.patience,
        )
        train, held = hold_out(len(images.y_train), settings, self.seed)  # the convolutions have not seen the latter
        unseen = images.X_train[held], images.y_train[held]
        data = images.X_train[train], images.y_train[train]
        fit(self.model, *data, recipe, held_out=unseen, generator=g, progress=False)

    def probabilities(self, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
        return self.model.predict(X, self.networks.settings.samples).probabilities


class Converted:
    """The network as the prior mean of a GP, which is fitted in closed form."""

    def __init__(self, networks: Networks, seed: int) -> None:
        self.networks, self.seed = networks, seed

    def fit(self) -> None:
        images = self.networks.images
        network, g = self.networks.trained(self.seed), torch.Generator().manual_seed(self.seed)
        train, held = hold_out(len(images.y_train), self.networks.settings, self.seed)
        data = images.X_train[train], images.y_train[train]
        unseen = images.X_train[held], images.y_train[held]
        self.model, _ = convert(network, *data, generator=g)
        soften(self.model, *unseen, generator=g)
        fit(self.model, *data, held_out=unseen, generator=g, progress=False)

    def probabilities(self, X: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
        return self.model.predict(X).probabilities


Build = Callable[[Networks, int], Classifier]

CONTESTANTS: dict[str, Build] = {  # those that use a network of another one come after it
    "NN": lambda networks, seed: PlainNetwork(networks, seed, scaled=False),
    "NN+Dropout": Dropout,
    "NN+TS": lambda networks, seed: PlainNetwork(networks, seed, scaled=True),
    "Laplace": Laplace,
    "ADGP": Hybrid,
    "NN Ensemble": Ensemble,
    "convert": Converted,
}
