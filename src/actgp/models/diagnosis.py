"""What a model's features lose, by what, and how much of the variance of predictions is due to it."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.autocast import full_precision
from actgp.features import ActivatedFeatures, SpectralMatch
from actgp.layers import GPLayer
from actgp.models.deep import DeepGP
from actgp.models.sgpr import SGPR
from actgp.models.shares import VarianceShares, shares_of_deep, shares_of_sgpr
from actgp.sphere import zonal_series

UNEXPLAINED_WARNING = 0.1  # of a layer's prior
SHARE_WARNING = 0.2  # of the variance of predictions
TRUNCATION_GRID = 2_001


@dataclass(frozen=True)
class LayerDiagnosis:
    """One layer, on given inputs.

    Attributes:
        unexplained: The mean fraction of k(x, x) that no q(u) can explain, Σ (k − Σ A²) / k / N.
        condition: The condition number of Kuu with its jitter.
        jitter: What was added to the diagonal of Kuu for its Cholesky decomposition.
        truncation_error: max |σ − σ̃| / max |σ| over [−1, 1]; None where features are not activations alone.
        norm: ‖g‖ of a feature in the RKHS at v = 1; likewise.
        match: The spectra side by side; likewise.
        advice: What is amiss, each with its remedy.
    """

    unexplained: float
    condition: float
    jitter: float
    truncation_error: float | None
    norm: float | None
    match: SpectralMatch | None
    advice: tuple[str, ...]

    def __str__(self) -> str:
        rows = [
            ("prior variance unexplained", f"{self.unexplained:.2%}"),
            ("condition number of Kuu", f"{self.condition:.1e}"),
            ("jitter", f"{self.jitter:.1e}"),
        ]
        if self.match is not None and self.norm is not None and self.truncation_error is not None:
            rows += [
                ("activation lost: levels the kernel lacks", f"{self.match.lost:.2%}"),
                ("prior missing: levels the activation lacks", f"{self.match.missing:.2%}"),
                ("prior truncated: levels that are not kept", f"{self.match.truncated:.2%}"),
                ("truncation error of the activation", _percent(self.truncation_error)),
                ("RKHS norm of a feature", f"{self.norm:.3g}"),
                ("... share of its square on the upper levels", f"{self.match.upper_norm:.2%}"),
            ]
        lines = [f"{name:<46}{value:>10}" for name, value in rows]
        return "\n".join([*lines, *(f"! {text}" for text in self.advice)])


def _percent(fraction: float) -> str:
    return f"{fraction:.2%}" if fraction < 10 else f"{fraction:.1e} ×"


@dataclass(frozen=True)
class Diagnosis:
    """A model's layers, in order, and what the variance of its predictions is made of.

    Attributes:
        layers: What the features of each layer lose.
        shares: Where the variance of predictions comes from.
        advice: What would make predictions surer, if anything would.

    Example:
        >>> import actgp, gpytorch, torch
        >>> features = actgp.ActivatedFeatures(input_dim=2, num_inducing=50)
        >>> model = actgp.SVGP(actgp.ArcCosine(2), features, gpytorch.likelihoods.GaussianLikelihood())
        >>> diagnosis = actgp.diagnose(model, torch.randn(100, 2))
        >>> diagnosis.layers[0].unexplained < 0.05
        True
    """

    layers: tuple[LayerDiagnosis, ...]
    shares: VarianceShares
    advice: tuple[str, ...]

    def __str__(self) -> str:
        layers = [f"layer {i}\n{layer}" for i, layer in enumerate(self.layers, start=1)]
        return "\n\n".join([*layers, "\n".join([str(self.shares), *(f"! {text}" for text in self.advice)])])


@full_precision
@torch.no_grad()
def diagnose(model: SGPR | DeepGP, X: Tensor) -> Diagnosis:
    """Says, per layer, what part of the prior its features leave unexplained at X, and why; and what that costs.

    Deeper layers are judged where the means of the layers before them take X.

    Args:
        model: A model with inducing features: `SGPR`, `SVGP` or `DeepGP`.
        X: Inputs, such as those that it is trained on.

    Returns:
        What is lost in each layer, and advice; `print` shows it as a table.

    Example:
        >>> import actgp, gpytorch, torch
        >>> features = actgp.ActivatedFeatures(input_dim=2, num_inducing=50)
        >>> model = actgp.SVGP(actgp.ArcCosine(2), features, gpytorch.likelihoods.GaussianLikelihood())
        >>> table = str(actgp.diagnose(model, torch.randn(100, 2)))  # for print
    """
    if isinstance(model, DeepGP):
        reached = model.hidden_means(X)
        layers = tuple(_diagnose(layer, layer.split(h)[0]) for layer, h in zip(model.gp_layers, reached, strict=True))
        return _concluded(layers, shares_of_deep(model, X))
    if not isinstance(model, SGPR):
        raise TypeError(
            f"model must have inducing features, got {type(model).__name__}; pass an SGPR, an SVGP or a DeepGP"
        )
    layer = _diagnose(model, checks.inputs(X, model.features.input_dim))
    return _concluded((layer,), shares_of_sgpr(model, X))


def _concluded(layers: tuple[LayerDiagnosis, ...], shares: VarianceShares) -> Diagnosis:
    advice = []
    if shares.unexplained > SHARE_WARNING:
        advice.append(
            f"{shares.unexplained:.0%} of the variance of predictions is prior that the features leave unexplained; "
            "give layers inducing points beside their activations (DecoupledFeatures, or Layers(num_points=...)), or "
            "more of them"
        )
    return Diagnosis(layers, shares, tuple(advice))


def _diagnose(layer: GPLayer | SGPR, X: Float[Tensor, "N D"]) -> LayerDiagnosis:
    kernel, features = layer.kernel, layer.features
    X = X.double()
    L, jitter = layer.cholesky()
    A = torch.linalg.solve_triangular(L, features.Kuf(kernel, X), upper=False)
    prior: Tensor = kernel(X, diag=True)
    unexplained = (1 - A.square().sum(0) / prior).clamp_min(0.0).mean().item()
    singular = torch.linalg.svdvals(L)
    advice = list(features.complaints(kernel))
    if unexplained > UNEXPLAINED_WARNING and not advice:
        smoother = ", a smaller beta, or MatchedKernel" if isinstance(features, ActivatedFeatures) else ""
        advice.append(
            f"{unexplained:.0%} of the prior variance is unexplained at these inputs; "
            f"use more inducing variables{smoother}"
        )
    truncation_error = norm = match = None
    if isinstance(features, ActivatedFeatures):
        match = features.match(kernel)
        norm = match.norms.sum().sqrt().item()
        t = torch.linspace(-1.0, 1.0, TRUNCATION_GRID, dtype=torch.float64)
        full, truncated = features.activation(t), zonal_series(t, match.shared, features.dimension)
        truncation_error = ((full - truncated).abs().max() / full.abs().max()).item()
    condition = ((singular[0] / singular[-1]) ** 2).item()
    return LayerDiagnosis(unexplained, condition, jitter.item(), truncation_error, norm, match, tuple(advice))
