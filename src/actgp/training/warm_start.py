"""From a trained network to a posterior: S in closed form, and the scales that suit it.

A generalised Gauss–Newton pass gives, for each layer and output, the precision of whitened u around the network,

    (S_p S_pᵀ)⁻¹ = I + (1/w) Σ_i β_ip a_i a_iᵀ,     β_ip = Σ_k (∂ r_kᵀf_L / ∂h_ip)²,     Σ_k r_k r_kᵀ = I(f_L),

with the Fisher information I of the likelihood and the weight w of the KL. For one layer, Gaussian noise and w = 1 this
is exact. If q is independent between blocks of variables, only the blocks of the precision are used, which gives the
best q of that form. Noise that varies begins the same everywhere; slopes that are frozen do not count in I.

Multiplying a kernel's variance by φ and m by φ^(−1/2) leaves the mean unchanged and multiplies Σ β a aᵀ by φ; so φ of
each layer, and the noise, are chosen by the objective itself.

Before that, inducing points beside activations are placed at the centres of clusters of what their layer is given. They
take no part in the network while their means are zero, and moving them leaves it as it is.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp.features import DecoupledFeatures, centres
from actgp.layers import GPLayer, mean_function
from actgp.likelihoods import adapter_of
from actgp.linalg import block_posterior_scale
from actgp.models import DeepGP
from actgp.training import ranks
from actgp.training.calibrate import (
    free_variance,
    has_free_noise,
    has_free_outliers,
    has_free_slopes,
    set_noise,
    set_outlier_noise,
    set_variance,
)
from actgp.training.data import Batches
from actgp.training.loader import ROWS_TO_SUM, Batch
from actgp.training.objectives import has_priors, posterior_objective, prior_share
from actgp.training.recipe import Recipe

OUTLIER_WIDTH = 10.0  # ω, relative to the error
ROWS_TO_JUDGE_BY = 1_000
ROWS_TO_CLUSTER = 10_000
FACTORS = (10.0, 10.0**0.5)  # of the steps in which scales are sought: first long ones, then shorter ones
SMALLEST_SCALE, LARGEST_SCALE = 1e-6, 1e4
SEED = 0

Scales = tuple[float, ...]
Curvature = list[Float64[Tensor, "P M M"]]


@torch.no_grad()
def warm_start(model: DeepGP, batches: Batches, recipe: Recipe, kl_weight: float) -> None:
    """Sets S of every layer, kernel variances and noise; the means stay."""
    _start_noise(model, batches)
    scaled = ScaledModel(model, gauss_newton(model, batches))
    scaled.apply(_best_scales(scaled, kl_weight, _some_rows(batches), batches.num_data, recipe), kl_weight)


def _best_scales(scaled: "ScaledModel", weight: float, rows: Batch, num_data: int, recipe: Recipe) -> Scales:
    (X, y), prior = rows, prior_share(scaled.model, num_data)

    def objective(scales: Scales) -> float:
        scaled.apply(scales, weight)
        generator = torch.Generator(X.device).manual_seed(SEED)
        found = posterior_objective(scaled.model, X, y, num_data, recipe, weight, generator, prior).objective
        return ranks.mean_number(found.item())

    return seek(objective, scaled.free)


def seek(objective: Callable[[Scales], float], free: tuple[bool, ...]) -> Scales:
    """Goes up and down each free scale in turn while the objective rises, in long steps and then in shorter ones."""
    best = tuple(1.0 for _ in free)
    reached = objective(best)
    for factor in FACTORS:
        for i in (i for i, is_free in enumerate(free) if is_free):
            for step in (1 / factor, factor):
                while SMALLEST_SCALE < best[i] * step < LARGEST_SCALE:
                    trial = (*best[:i], best[i] * step, *best[i + 1 :])
                    value = objective(trial)
                    if not value > reached:  # nor NaN
                        break
                    best, reached = trial, value
    return best


class ScaledModel:
    """A model as it was, whose kernel variances and noise are multiplied by scales and whose S follows.

    A layer whose S is frozen stays as it is.

    Args:
        model: The model.
        curvature: What `gauss_newton` gives for it.

    Attributes:
        free: Which scales may differ from one: those of each layer's kernel, and the noise.
    """

    def __init__(self, model: DeepGP, curvature: Curvature) -> None:
        self.model, self.curvature = model, curvature
        self.means = [layer.q.mean.clone() for layer in model.gp_layers]
        self.variances = [
            free_variance(layer) if all(p.requires_grad for p in layer.q.parameters()) else None
            for layer in model.gp_layers
        ]
        self.noise = model.likelihood.noise.clone() if has_free_noise(model) else None
        self.free = (*(variance is not None for variance in self.variances), self.noise is not None)

    def apply(self, scales: Scales, kl_weight: float) -> None:
        """Sets variances, noise, m and S."""
        *of_layers, noise = scales
        parts = zip(self.model.gp_layers, of_layers, self.means, self.variances, self.curvature, strict=True)
        for layer, scale, mean, variance, total in parts:
            if variance is not None:
                set_variance(layer, variance * scale)
            if layer.q.raw_scale_tril.requires_grad:
                H = scale / (noise * kl_weight) * total  # among outliers nearly, since theirs stays
                layer.q.assign(mean * scale**-0.5, block_posterior_scale(H, layer.q.blocks).to(mean))
        if self.noise is not None:
            set_noise(self.model, self.noise.item() * noise)


def gauss_newton(model: DeepGP, batches: Batches) -> Curvature:
    """Σ_i β_ip a_i a_iᵀ for each layer and output: over all rows, or over 100,000 of them, and scaled."""
    layers = model.gp_layers
    sizes = [(layer.num_outputs, layer.features.num_inducing) for layer in layers]
    device = layers[0].q.mean.device
    curvature = [torch.zeros(P, M, M, dtype=torch.float64, device=device) for P, M in sizes]
    count = 0
    for X, _ in batches.sample(ROWS_TO_SUM):
        count += len(X)
        inputs = model.hidden_means(X)
        whitened = [layer.whiten(h) for layer, h in zip(layers, inputs, strict=True)]  # A: [B, M]
        for i, (A, beta) in enumerate(zip(whitened, _sensitivities(model, inputs[0]), strict=True)):
            scaled = A.double() * beta.double().T.sqrt().unsqueeze(-1)  # [P, B, M]
            curvature[i] += scaled.mT @ scaled  # in float64: entries may be large beside the I that makes it definite
    share = ranks.total(torch.tensor(float(count), device=device)).item() / batches.num_data
    return [ranks.total(values) / share for values in curvature]


def _sensitivities(model: DeepGP, h: Tensor) -> list[Tensor]:
    """β of each layer's outputs, [B, P]: what an observation of y tells about them."""
    with torch.enable_grad():
        outputs = []
        h = h.detach().requires_grad_()
        for layer in model.gp_layers:
            h = mean_function(layer)(h)
            outputs.append(h)
        beta = [torch.zeros_like(output) for output in outputs]
        for factor in adapter_of(model.likelihood).fisher_factors(outputs[-1]):
            gradients = torch.autograd.grad(outputs[-1], outputs, factor, retain_graph=True)
            beta = [total + gradient.square() for total, gradient in zip(beta, gradients, strict=True)]
    return [values.detach() for values in beta]


def _start_noise(model: DeepGP, batches: Batches) -> None:
    """Gaussian noise starts as the network's training error, the same everywhere; outliers ten times as wide.

    Outliers and slopes are left alone where the likelihood has priors, which may be theirs.
    """
    free = not has_priors(model.likelihood)
    if free and has_free_slopes(model):
        model.likelihood.slopes.zero_()
    if not (has_free_noise(model) or has_free_outliers(model)):
        return
    errors = [(model.mean(X).reshape(y.shape) - y).square() for X, y in batches.sample(ROWS_TO_SUM)]
    error = ranks.gathered(torch.cat(errors)).mean().item()
    if has_free_noise(model):
        set_noise(model, error)
        error = model.likelihood.noise.item()
    if free and has_free_outliers(model):
        set_outlier_noise(model, OUTLIER_WIDTH**2 * error)


def _some_rows(batches: Batches) -> Batch:
    """Rows from all over the data, to judge scales by."""
    X, y = (torch.cat(values) for values in zip(*batches.sample(ROWS_TO_JUDGE_BY), strict=True))
    return X, y


@torch.no_grad()
def place_points(model: DeepGP, batches: Batches, seed: int) -> None:
    """Places the points of every layer that has points beside activations, unless these have been trained already."""
    layers = [layer for layer in model.gp_layers if isinstance(layer.features, DecoupledFeatures)]
    if not layers:
        return
    parts = [model.hidden_means(X) for X, _ in batches.sample(ROWS_TO_CLUSTER)]
    for layer, *given in zip(model.gp_layers, *parts, strict=True):
        if isinstance(features := layer.features, DecoupledFeatures):
            locations = features.points.locations
            if locations.requires_grad and not _trained(layer, features):
                locations.copy_(centres(ranks.gathered(torch.cat(given)), len(locations), seed))


def _trained(layer: GPLayer, features: DecoupledFeatures) -> bool:
    """Whether points have been in use: their means are no longer zero or, where these have to be, their S is not I."""
    first = features.blocks[0]
    parameters = layer.q.mean[first:] if features.mean_from == "both" else layer.q.raw_scale_tril[:, first:, first:]
    return bool(parameters.any())
