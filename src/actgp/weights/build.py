"""GP layers from a head, one after the other, each fitted to the network's values at what the layers before it give."""

import warnings
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from actgp.activations import Activation, ReLU, SharpActivation
from actgp.features import ActivatedFeatures, SpectralMismatchWarning
from actgp.features.mismatch import overshoots
from actgp.kernels import ArcCosine, MatchedKernel, ZonalKernel
from actgp.layers import GPLayer
from actgp.models.build import KernelName
from actgp.weights.codes import encode
from actgp.weights.head import Dense, Head, counterpart
from actgp.weights.refit import SHARPNESSES, Fitted, fit_layer, relative_error, undamped
from actgp.weights.report import LayerConversion
from actgp.weights.rows import Rows

FEATURES_PER_UNIT = 2
FEWEST_FEATURES, MOST_FEATURES = 128, 512
SMOOTH_LEVELS, SHARP_LEVELS = 20, 40
SMALLEST_SIZE = 1e-9
FEWEST_ROWS, MOST_ROWS = 2_000, 4_000


@dataclass(frozen=True)
class Settings:
    """How layers are built.

    Attributes:
        kernel: Which kernel.
        energy: The part of each linear map between activations to keep.
        most_codes: The most numbers that pass between layers, whatever part they keep.
        num_inducing: M; None for twice the units, between 128 and 512.
        num_levels: Ñ; None for 20, and for ReLU, whose series converges slowly, 40.
    """

    kernel: KernelName
    energy: float
    most_codes: int
    num_inducing: int | None
    num_levels: int | None

    def levels_of(self, activation: Activation) -> int:
        """Ñ of a layer with this activation."""
        default = SHARP_LEVELS if isinstance(activation, ReLU) else SMOOTH_LEVELS
        return default if self.num_levels is None else self.num_levels

    def features_for(self, units: int) -> int:
        """M of a layer that takes over so many units."""
        default = min(max(FEATURES_PER_UNIT * units, FEWEST_FEATURES), MOST_FEATURES)
        return default if self.num_inducing is None else self.num_inducing

    def kernel_of(self, input_dim: int, activation: Activation) -> ZonalKernel:
        """The kernel of a layer."""
        if self.kernel == "arccosine":
            return ArcCosine(input_dim)
        return MatchedKernel(input_dim, activation, self.levels_of(activation))


def build_layers(head: Head, rows: Rows, settings: Settings) -> tuple[list[GPLayer], list[LayerConversion]]:
    """The layers, in float64, and a record of each."""
    X = [rows.draw(min(max(2 * len(rows.fit), FEWEST_ROWS), MOST_ROWS)), rows.judge, rows.test]
    layers, records = [], []
    given = X  # what the converted layers before this one give
    true = [head.dense[0](part) for part in X]  # what enters the network's own activation
    units = head.dense[0]
    scales = _column_sizes(X[0])
    last = len(head.activations) - 1
    for depth, activation in enumerate(head.activations):
        hidden = [activation(part) for part in true]
        following, energy = head.dense[depth + 1], 1.0
        outgoing, taken = following, units  # the layer's outputs as a function of its units
        if depth < last:
            codes = encode(head, depth, hidden[0], settings.energy, settings.most_codes)
            outgoing, energy, units = Dense(codes.C, -codes.C @ codes.mean), codes.energy, codes.following
        targets = [outgoing(part) for part in hidden]
        # The influence of a unit: the variance that it sends on.
        order = (outgoing.W.square().sum(0) * hidden[0].var(0)).argsort(descending=True)
        fitted = _fit(activation, taken, order, scales, given, targets, settings)
        with warnings.catch_warnings():  # what does not fit is in the report, as unexplained variance
            warnings.simplefilter("ignore", SpectralMismatchWarning)
            layer = GPLayer(fitted.kernel, fitted.features, len(outgoing.W)).to(targets[0])
        layer.q.raw_mean.copy_(undamped(layer, fitted.mean))
        records.append(_record(layer, activation, taken, outgoing, order, energy, given[-1], targets[-1]))
        layers.append(layer)
        given = [layer.whiten(part) @ layer.q.mean for part in given]
        true = [following(part) for part in hidden]
        scales = torch.ones_like(given[0][0])  # codes have their scales by importance already
    return layers, records


def _fit(
    activation: nn.Module,
    units: Dense,
    order: Tensor,
    scales: Float64[Tensor, " D"],
    given: list[Tensor],
    targets: list[Tensor],
    settings: Settings,
) -> Fitted:
    candidates = [counterpart(activation, beta) for beta in SHARPNESSES]
    if not isinstance(candidates[0], SharpActivation):  # ReLU: all are the same
        candidates = candidates[:1]
    M = settings.features_for(len(order))
    levels = settings.levels_of(candidates[0])
    return fit_layer(units, candidates, settings.kernel_of, levels, M, order, scales, given[:2], targets[:2])


def _column_sizes(X: Float64[Tensor, "N D"]) -> Float64[Tensor, " D"]:
    """The root mean square of each column, so that x / ℓ is of size one; one where a column is zero."""
    rms = X.square().mean(0).sqrt()
    return torch.where(rms > SMALLEST_SIZE * rms.max(), rms, 1.0)


def _record(
    layer: GPLayer,
    activation: nn.Module,
    units: Dense,
    outgoing: Dense,
    order: Tensor,
    energy: float,
    X: Float64[Tensor, "N D"],
    T: Float64[Tensor, "N P"],
) -> LayerConversion:
    features = layer.features
    assert isinstance(features, ActivatedFeatures)
    own = order[: features.num_inducing]
    scales = layer.kernel.lengthscale[0]
    norms = torch.cat([units.W[own] * scales, units.b[own, None]], dim=-1).norm(dim=-1)
    hidden = features.cross(layer.kernel, X)[: len(own)].T  # [N, H]
    # σ(w·x + b) ≈ ‖w̃‖ r σ̃(ŵ·x̂), exact for ReLU but for the truncation
    difference = hidden @ (norms[:, None] * outgoing.W[:, own].T) - T
    beta = features.activation.beta.item() if isinstance(features.activation, SharpActivation) else None
    return LayerConversion(
        units=len(order),
        num_inducing=features.num_inducing,
        activation=type(activation).__name__,
        sharpness=beta,
        rank=layer.num_outputs,
        energy=energy,
        mapped_error=relative_error(difference - difference.mean(0), T),
        refitted_error=relative_error(layer.whiten(X) @ layer.q.mean - T, T),
        unexplained=layer.unexplained(X).mean().item(),
        num_levels=features.num_levels,
        overshoot=overshoots(features.activation, features.dimension, features.num_levels)[-1].item(),
    )
