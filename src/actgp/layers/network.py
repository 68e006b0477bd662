"""A GP layer's mean as a layer of a network: plain tensors and operations, ready for export.

hidden = r σ̃(W x̂) for activations, or k(Z, x) for inducing points;   output = Vᵀ hidden (+ x)
"""

import copy
from collections.abc import Callable, Sequence
from functools import partial

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import fused
from actgp.autocast import full_precision
from actgp.features import DecoupledFeatures, InducingFeatures, InducingPoints, Units, Whitening
from actgp.layers.gp_layer import GPLayer, kernel_products
from actgp.sphere import lift, project

Mean = Callable[[Float[Tensor, "N D"]], Float[Tensor, "N P"]]


class HiddenUnits(nn.Module):
    """x ↦ c r σ(W x̂), x̃ = [x / ℓ, 1]: hidden units with their bias and input scales, as in `features.units`.

    Args:
        units: The units, once for each precision that the network may be cast to; the first is the one it begins in.
    """

    amplitudes: Tensor | None

    def __init__(self, *units: Units) -> None:
        super().__init__()
        first = units[0]
        self.scales = nn.Parameter(first.lengthscale.clone())  # [1, D]
        self.weights = nn.Parameter(first.directions.clone())  # [M, d]
        self.register_parameter("amplitudes", None if first.amplitudes is None else nn.Parameter(first.amplitudes))
        self.kernel = copy.deepcopy(first.shapes.kernel)
        self.width = first.shapes.width
        self.activations = {own.directions.dtype: own.shapes.activation for own in units}

    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N M"]:
        radius, direction = project(lift(X / self.scales))
        t, hidden = direction @ self.weights.T, []  # [N, M]
        if (activation := self.activations[X.dtype]) is not None:
            hidden.append(activation(t[:, : self.width]))
        if self.kernel is not None:
            hidden.append(self.kernel.shape(t[:, self.width :].clamp(-1.0, 1.0)))
        values = radius.unsqueeze(-1) * torch.cat(hidden, dim=1)
        return values if self.amplitudes is None else values * self.amplitudes


class KernelUnits(nn.Module):
    """x ↦ k(x, Z): with inducing points any other kernel is the activation."""

    def __init__(self, features: InducingPoints, kernel: Kernel, dtype: torch.dtype) -> None:
        super().__init__()
        self.locations = nn.Parameter(features.locations.detach().to(dtype, copy=True))  # [M, D]
        self.kernel = copy.deepcopy(kernel).to(dtype)

    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N M"]:
        dims = self.kernel.active_dims  # the columns that it uses; None for all
        return self.kernel.forward(*(Y if dims is None else Y[:, dims] for Y in (X, self.locations)))


class FeatureUnits(nn.Module):
    """x ↦ Kuf of any other features, as they are."""

    def __init__(self, features: InducingFeatures, kernel: Kernel, dtype: torch.dtype) -> None:
        super().__init__()
        self.features, self.kernel = copy.deepcopy(features).to(dtype), copy.deepcopy(kernel).to(dtype)

    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N M"]:
        return self.features.cross(self.kernel, X).T


class NetworkLayer(nn.Module):
    """The mean of a GP layer: hidden units, output weights V, and a skip connection for an identity prior mean.

    In the precision that the layer's Kuf has to have: its inputs, and what it gives, may have another.
    """

    def __init__(self, layer: GPLayer) -> None:
        super().__init__()
        with torch.no_grad():
            R, dtype, _ = layer.features.whitening(layer.kernel, layer.q.raw_mean.dtype)
            self.units = units_of(layer.features, layer.kernel, dtype)
            self.output_weights = nn.Parameter((R.mT @ layer.q.mean.double()).to(dtype))  # V: [M, P]
        self.skip = layer.prior_mean == "identity"

    @full_precision
    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
        own = X.to(self.output_weights.dtype)
        output = self.units(own) @ self.output_weights
        output = own + output if self.skip else output
        return output.to(torch.promote_types(X.dtype, torch.float32))  # from a backbone under autocast, less may come


def units_of(features: InducingFeatures, kernel: Kernel, dtype: torch.dtype) -> nn.Module:
    """The hidden units that features are."""
    units = features.units(kernel, dtype)
    if units is not None:
        other = features.units(kernel, torch.float32 if dtype == torch.float64 else torch.float64)
        return HiddenUnits(units, units if other is None else other)
    if isinstance(features, InducingPoints):
        return KernelUnits(features, kernel, dtype)
    return FeatureUnits(features, kernel, dtype)


@full_precision
def mean_functions(layers: Sequence[GPLayer]) -> list[Mean]:
    """x ↦ Kfu V (+ x), V = L⁻ᵀ m: the mean of each layer, in its own precision, with gradients for its parameters.

    Inducing points beside activations take part once they have means.
    """
    if not layers:
        return []
    pairs, means = [], []
    for layer in layers:
        features, m = layer.features, layer.q.mean
        if isinstance(features, DecoupledFeatures) and not m[features.blocks[0] :].any():
            features, m = features.activated, m[: features.blocks[0]]
        pairs.append((features, layer.kernel))
        means.append(m)
    found = fused.whitenings(pairs, means[0].dtype)
    return [
        _mean(features, layer.kernel, m, whitening, layer.prior_mean == "identity")
        for layer, (features, _), m, whitening in zip(layers, pairs, means, found, strict=True)
    ]


def _mean(
    features: InducingFeatures, kernel: Kernel, m: Float[Tensor, "M P"], whitening: Whitening, skip: bool
) -> Mean:
    outputs = m.T.double() @ whitening.R  # Vᵀ: [P, M]
    return partial(_mean_at, features, kernel, outputs, whitening, skip)


@full_precision
def _mean_at(
    features: InducingFeatures,
    kernel: Kernel,
    outputs: Float64[Tensor, "P M"],
    whitening: Whitening,
    skip: bool,
    X: Float[Tensor, "N D"],
) -> Float[Tensor, "N P"]:
    f = kernel_products(features, kernel, X, outputs, whitening)[0].to(X.dtype)
    return X + f if skip else f


def mean_function(layer: GPLayer) -> Mean:
    """The mean of one layer, likewise."""
    return mean_functions((layer,))[0]
