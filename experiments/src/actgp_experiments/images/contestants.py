"""The contestants, by the names that tables use: each is fitted to what a network makes of images.

NN                  the network, trained on the cross-entropy
NN+Dropout          another one with dropout behind dense units in training and prediction (Gal and Ghahramani, 2016)
NN+TS               softmax(f / T), T by the likelihood of calibration images (Guo et al., 2017)
Laplace             around the last layer, all of its covariance; prior by a grid on calibration images, as the README
                    of laplace-torch does (Daxberger et al., 2021)
Laplace, Kronecker  the same with Kronecker factors, and the prior by the marginal likelihood, its other default
VBLL                a variational last layer on the features of the network (Harrison et al., 2024)
ADGP, paper         the network's convolutions, and a deep GP in place of its dense layers, trained on the ELBO
ADGP                the network as the prior mean of a GP on its features: `convert`, `soften`, `fit`

Ensembles are equal mixtures of what the contestants of all seeds predict (`cells`).
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from actgp.convert import convert, soften
from actgp.models import DeepGP, hybrid
from actgp.training import Recipe, fit
from actgp_experiments.baselines.last_layer_laplace import require_laplace
from actgp_experiments.images.bench import Bench, Labelled, View, in_parts
from actgp_experiments.images.networks import ROWS
from actgp_experiments.metrics import predictive_entropy

try:
    import vbll
except ImportError:  # an optional peer
    vbll = None

COLDEST, HOTTEST = -3.0, 3.0  # log T
GRID = 21  # prior precisions from 1e-4 to 1e4
HEAD_RATE = 3e-3  # of the hybrid's layers, in both stages
ROWS_TO_CONVERT = 5_000
GREY = ("0.6", "1.0")  # means over the second pooling, the first dense layer
LAYERS = {"mnist": GREY, "fashion_mnist": GREY, "cifar10": ("0.12",)}  # chosen by images that are not tested


class Found(NamedTuple):
    """What a contestant says of images.

    Attributes:
        probabilities: Of each class.
        epistemic: How much of its uncertainty is about the function, a number for each image; None if it cannot tell.
    """

    probabilities: Float[Tensor, "N K"]
    epistemic: Float[Tensor, " N"] | None


class Classifier(Protocol):
    """A model of images, fitted when it was built.

    Attributes:
        from_features: Whether it predicts from a view's features, and not from its images.
    """

    from_features: bool

    def predict(self, view: View) -> Found:
        """Of each image."""


class PlainNetwork:
    """The network with a temperature."""

    from_features = True

    def __init__(self, bench: Bench, temperature: float = 1.0) -> None:
        self.head, self.temperature = bench.head, temperature

    def predict(self, view: View) -> Found:
        return Found((in_parts(self.head, view.features) / self.temperature).softmax(-1), None)


def scaled_network(bench: Bench) -> PlainNetwork:
    """The network with the temperature that makes calibration images likeliest."""
    (_, features), y = bench.calibration
    outputs = in_parts(bench.head, features).double()

    def loss(log_temperature: float) -> float:
        return nn.functional.cross_entropy(outputs / torch.tensor(log_temperature).exp(), y).item()

    best = minimize_scalar(loss, bounds=(COLDEST, HOTTEST), method="bounded").x
    return PlainNetwork(bench, torch.tensor(float(best)).exp().item())


class Dropout:
    """The mixture over masks of dense units; the convolutions, which have no dropout, run once."""

    from_features = False

    def __init__(self, bench: Bench) -> None:
        self.network = bench.networks.trained(bench.seed, bench.settings.dropout)
        self.samples, self.seed = bench.settings.samples, bench.seed

    @torch.no_grad()
    def predict(self, view: View) -> Found:
        backbone, head = self.network
        features = in_parts(backbone, view.images)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            head.train()
            passes = torch.stack([head(features).softmax(-1) for _ in range(self.samples)])
            head.eval()
        return Found(passes.mean(0), mutual_information(passes))


def mutual_information(passes: Float[Tensor, "S N K"]) -> Float[Tensor, " N"]:
    """H(E p) − E H(p): what the label would tell of which pass is right."""
    inside = torch.stack([predictive_entropy(p) for p in passes]).mean(0)
    return (predictive_entropy(passes.mean(0)) - inside).clamp_min(0)


class Laplace:
    """A Gauss–Newton posterior of the last layer; predictions by the probit approximation.

    Args:
        bench: The network.
        structure: Of the Hessian.
        by_grid: Whether the prior is chosen by calibration images, and not by the marginal likelihood.
    """

    from_features = True

    def __init__(self, bench: Bench, structure: str, *, by_grid: bool) -> None:
        head = nn.Sequential(nn.Identity(), *bench.head)  # laplace-torch refuses a network of one module
        with torch.enable_grad():
            self.posterior: Any = require_laplace()(
                head, "classification", subset_of_weights="last_layer", hessian_structure=structure
            )
            self.posterior.fit(_loader(bench.train))
            grid = {"method": "gridsearch", "val_loader": _loader(bench.calibration), "grid_size": GRID}
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "By default `link_approx` is `probit`", UserWarning)
                self.posterior.optimize_prior_precision(pred_type="glm", **(grid if by_grid else {"method": "marglik"}))

    @torch.no_grad()
    def predict(self, view: View) -> Found:
        probabilities, variances = [], []
        for part in view.features.split(ROWS):
            jacobians, mean = self.posterior.backend.last_layer_jacobians(part)
            covariance = self.posterior.functional_variance(jacobians)  # [N, K, K]
            variance = covariance.diagonal(dim1=-2, dim2=-1)
            probabilities.append((mean / (1 + torch.pi / 8 * variance).sqrt()).softmax(-1))
            variances.append(variance.mean(-1))
        return Found(torch.cat(probabilities), torch.cat(variances))


def _loader(data: Labelled) -> DataLoader[Any]:
    return DataLoader(TensorDataset(data.view.features, data.y), batch_size=ROWS)


class VariationalLastLayer:
    """VBLL in place of the last Linear, trained on what enters that; everything before it stays as it is."""

    from_features = True

    def __init__(self, bench: Bench) -> None:
        if vbll is None:
            raise ImportError("this contestant needs vbll, got none of it; install it with pip")
        self.front, last = bench.head[:-1], bench.head[-1]
        assert isinstance(last, nn.Linear)
        settings, (view, y) = bench.settings, bench.train
        hidden = in_parts(self.front, view.features)
        g = torch.Generator().manual_seed(bench.seed)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(bench.seed)
            self.layer = vbll.DiscClassification(
                last.in_features, last.out_features, 1 / len(y), parameterization="diagonal"
            )
            adam = torch.optim.AdamW(self.layer.parameters(), settings.variational_rate)
            for _ in range(settings.variational_epochs):
                for rows in torch.randperm(len(y), generator=g).split(settings.variational_batch):
                    adam.zero_grad()
                    self.layer(hidden[rows]).train_loss_fn(y[rows]).backward()
                    adam.step()

    @torch.no_grad()
    def predict(self, view: View) -> Found:
        hidden = in_parts(self.front, view.features)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            found = self.layer(hidden).predictive.probs
        return Found(found, self.layer.logit_predictive(hidden).variance.mean(-1))


class Hybrid:
    """Two GP layers behind the network's convolutions, which stay as they are."""

    from_features = True

    def __init__(self, bench: Bench) -> None:
        settings, (view, y) = bench.settings, bench.train
        g = torch.Generator().manual_seed(bench.seed)
        same = nn.Identity().requires_grad_(False)
        num_classes = bench.networks.images.num_classes
        self.model = hybrid(same, view.features, num_classes, num_inducing=settings.units, generator=g)
        recipe = Recipe(
            network_steps=settings.head_steps,
            num_steps=settings.posterior_steps,
            objective="elbo",
            network_rate=HEAD_RATE,
            learning_rate=HEAD_RATE,
            batch_size=settings.batch_size,
        )
        unseen = bench.calibration.view.features, bench.calibration.y
        fit(self.model, view.features, y, recipe, held_out=unseen, generator=g, progress=False)
        self.samples = settings.samples

    def predict(self, view: View) -> Found:
        parts = [self.model.predict(part, self.samples) for part in view.features.split(ROWS)]
        return Found(
            torch.cat([part.probabilities for part in parts]), torch.cat([part.epistemic.sum(-1) for part in parts])
        )


class Anchored:
    """The network as the prior mean of a GP on the directions of its features."""

    from_features = False

    def __init__(self, bench: Bench) -> None:
        name = bench.networks.images.name
        layers = next(found for key, found in LAYERS.items() if name.startswith(key))
        self.model = anchored(bench, layers, bench.settings.num_inducing)

    def predict(self, view: View) -> Found:
        backbone, head = self.model.backbone, DeepGP(self.model.gp_layers, self.model.likelihood)
        assert backbone is not None
        h = in_parts(backbone, view.images)
        return Found(head.predict(h).probabilities, head.unexplained(h))


def anchored(bench: Bench, layers: tuple[str, ...], num_inducing: int) -> DeepGP:
    """`convert`, `soften`, `fit`."""
    g = torch.Generator().manual_seed(bench.seed)
    (view, y), held = bench.train, bench.calibration
    some = slice(ROWS_TO_CONVERT)  # enough for inducing points
    model, _ = convert(bench.network, view.images[some], y[some], num_inducing=num_inducing, layers=layers, generator=g)
    soften(model, held.view.images, held.y, generator=g)
    fit(model, view.images, y, held_out=(held.view.images, held.y), generator=g, progress=False)
    return model


Build = Callable[[Bench], Classifier]

CONTESTANTS: dict[str, Build] = {
    "NN": PlainNetwork,
    "NN+Dropout": Dropout,
    "NN+TS": scaled_network,
    "Laplace": lambda bench: Laplace(bench, "full", by_grid=True),
    "Laplace, Kronecker": lambda bench: Laplace(bench, "kron", by_grid=False),
    "VBLL": VariationalLastLayer,
    "ADGP, paper": Hybrid,
    "ADGP": Anchored,
}
ENSEMBLES = {"NN Ensemble": "NN", "ADGP Ensemble": "ADGP"}  # of what
