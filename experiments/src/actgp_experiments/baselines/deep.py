"""Deep GPs: ours, the paper's, and the classic one with inducing points.

ADGP, default     `fit_table`, what `DGPRegressor` does by default
ADGP, ours        one deep GP, `deep_gp` and `fit` as they are by default
ADGP, published   softplus with β = 3, zero mean functions; as a network, then S = 1e-5 and the ELBO, all by Adam
DGP               inducing points, identity means and S = 1e-5 inside, the ELBO by Adam, as Salimbeni and Deisenroth
                  (2017), but with the arc-cosine kernel instead of their RBF
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import GaussianLikelihood
from jaxtyping import Float
from torch import Tensor

from actgp.activations import Softplus
from actgp.features import InducingPoints, centres
from actgp.kernels import ArcCosine
from actgp.layers import GPLayer, PriorMean
from actgp.models import DeepGP, Layers, deep_gp
from actgp.tables import Effort, fit_table
from actgp.training.data import TensorBatches
from actgp.training.fit import fit
from actgp.training.objectives import Evaluation, posterior_score
from actgp.training.recipe import Recipe
from actgp.training.stage import Schedule, Stage
from actgp.training.stages import draw_means, network_stage
from actgp_experiments.baselines.network import SMALLEST_VARIANCE, hold_out
from actgp_experiments.baselines.predictor import Settings, mixture
from actgp_experiments.metrics import Predictive

SMALL_SCALE = 1e-5  # of S, as in both papers
START_NOISE = 0.05


def predictive(model: DeepGP, X: Tensor, samples: int) -> Predictive:
    """The mixture over sampled paths, with the noise."""
    weights, means, variances = model.predict(X, samples).normal_components()
    return mixture(means[..., 0], variances[..., 0], weights)


class OurTable:
    """The library's default for tables, a mixture, in double precision as estimators have it."""

    def __init__(self, settings: Settings, seed: int, effort: Effort = "balanced") -> None:
        self.settings, self.seed, self.effort = settings, seed, effort

    def fit(self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"]) -> None:
        g = torch.Generator().manual_seed(self.seed)
        self.model, _ = fit_table(X.double(), y.double().unsqueeze(1), effort=self.effort, generator=g)

    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        weights, means, variances = self.model.predict(X.double(), self.settings.samples).normal_components()
        return mixture(means[..., 0], variances[..., 0], weights)


class OurDeepGP:
    """The library's defaults, but for what is said to differ.

    No stage has more steps than a network, which matters only where these are few, for a first look.

    Args:
        settings: How many layers, steps and paths.
        seed: Of everything random.
        model: What differs from the defaults of `deep_gp`.
        recipe: What differs from those of `Recipe`.
    """

    def __init__(
        self,
        settings: Settings,
        seed: int,
        model: Mapping[str, Any] | None = None,
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings, self.seed = settings, seed
        self.shape = {"num_layers": settings.num_layers, **(model or {})}
        self.training = dict(recipe or {})

    def fit(self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"]) -> None:
        g = torch.Generator().manual_seed(self.seed)
        self.model = deep_gp(X.shape[1], generator=g, **copy.deepcopy(self.shape))
        suited, most = replace(Recipe.suited_to(self.model), **self.training), self.settings.network_steps
        recipe = replace(suited, network_steps=min(suited.network_steps, most), num_steps=min(suited.num_steps, most))
        fit(self.model, X, y, recipe, generator=g, progress=False)

    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        return predictive(self.model, X, self.settings.samples)


class PublishedDeepGP:
    """The paper's activated deep GP, trained as the paper trains it."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings, self.seed = settings, seed

    @torch.enable_grad()
    def fit(self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"]) -> None:
        settings, g = self.settings, torch.Generator().manual_seed(self.seed)
        self.model = deep_gp(
            X.shape[1],
            num_layers=settings.num_layers,
            num_inducing=settings.units,
            layers=Layers(num_points=0, activation=Softplus(3.0), prior_mean="zero"),
            likelihood=_gaussian_noise(),
            generator=g,
        )
        train, held = hold_out(len(X), settings, self.seed)
        batches = TensorBatches(X[train], y[train, None], settings.batch_size, g)
        recipe = Recipe(network_steps=settings.network_steps, patience=settings.patience)
        draw_means(self.model, batches, g)
        self.model.train()
        stage = network_stage(self.model, recipe, len(X) - len(held), (X[held], y[held, None]))
        stage.run(batches, lambda objective, rate=1.0: None, None, lambda: None)
        error = (self.model.mean(X[train]) - y[train]).square().mean().item()
        self.model.likelihood.noise = max(error, 2 * SMALLEST_VARIANCE)
        _shrink(self.model, include_last=True)
        _train_by_adam(self.model, batches, (X[held], y[held, None]), settings, g)

    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        return predictive(self.model, X, self.settings.samples)


class ClassicDeepGP:
    """Inducing points at the centres of clusters of the data, the same in every layer: widths are those of the data."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings, self.seed = settings, seed

    @torch.enable_grad()
    def fit(self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"]) -> None:
        settings, D = self.settings, X.shape[1]
        Z = inducing_inputs(X, settings.units, self.seed)
        widths = [D] * (settings.num_layers - 1) + [1]
        hidden: PriorMean = "identity"
        means: list[PriorMean] = [hidden] * (settings.num_layers - 1) + ["zero"]
        layers = [
            GPLayer(ArcCosine(D), InducingPoints(Z), width, mean) for width, mean in zip(widths, means, strict=True)
        ]
        self.model = DeepGP(layers, _gaussian_noise())
        self.model.likelihood.noise = START_NOISE
        _shrink(self.model, include_last=False)
        g = torch.Generator().manual_seed(self.seed)
        train, held = hold_out(len(X), settings, self.seed)
        batches = TensorBatches(X[train], y[train, None], settings.batch_size, g)
        self.model.train()
        steps = settings.network_steps + settings.posterior_steps  # it has no stage as a network
        _train_by_adam(self.model, batches, (X[held], y[held, None]), settings, g, steps)

    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        return predictive(self.model, X, self.settings.samples)


def _gaussian_noise() -> GaussianLikelihood:
    return GaussianLikelihood(noise_constraint=GreaterThan(SMALLEST_VARIANCE))


def inducing_inputs(X: Float[Tensor, "N D"], num_inducing: int, seed: int) -> Float[Tensor, "M D"]:
    """Centres of clusters, no more of them than rows."""
    return centres(X, min(num_inducing, len(X)), seed)


@torch.no_grad()
def _shrink(model: DeepGP, *, include_last: bool) -> None:
    """S = 1e-5 I."""
    for layer in model.gp_layers if include_last else model.gp_layers[:-1]:
        S = torch.full_like(layer.q.raw_scale_tril[:, 0], SMALL_SCALE)
        layer.q.assign(layer.q.mean, torch.diag_embed(S))


def _train_by_adam(
    model: DeepGP,
    batches: TensorBatches,
    held_out: tuple[Tensor, Tensor],
    settings: Settings,
    generator: torch.Generator,
    steps: int | None = None,
) -> None:
    """The ELBO with one sample, everything by Adam."""
    adam = torch.optim.Adam(model.parameters(), lr=settings.rate, fused=True)

    def evaluate(X: Tensor, y: Tensor) -> Evaluation:
        bound = model.elbo(X, y, batches.num_data, generator=generator) / batches.num_data
        return Evaluation(-bound, bound.detach())

    schedule = Schedule(settings.posterior_steps if steps is None else steps, settings.patience)
    stage = Stage("posterior", model, evaluate, [adam], schedule, lambda: posterior_score(model, *held_out))
    stage.run(batches, lambda objective, rate=1.0: None, None, lambda: None)
    model.eval()
