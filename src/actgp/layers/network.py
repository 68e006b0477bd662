"""A GP layer's mean as a layer of a network: plain tensors and operations, ready for export.

hidden = r σ̃(W x̂) for activations, or k(Z, x) for inducing points;   output = Vᵀ hidden (+ x)
"""

import copy
from collections.abc import Sequence

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor, nn

from actgp.autocast import full_precision
from actgp.features import ActivatedFeatures, DecoupledFeatures, InducingFeatures, InducingPoints, means_of
from actgp.features.alike import Mean
from actgp.features.points import is_zonal
from actgp.kernels import ZonalKernel
from actgp.layers.gp_layer import GPLayer
from actgp.sphere import lift, polynomial, project


class ActivatedUnits(nn.Module):
    """x ↦ r σ̃(W x̂), x̃ = [x / ℓ, 1]: a layer of hidden units with its bias and input scales."""

    def __init__(self, features: ActivatedFeatures, kernel: ZonalKernel, dtype: torch.dtype) -> None:
        super().__init__()
        self.scales = nn.Parameter(kernel.lengthscale.detach().to(dtype, copy=True))  # [1, D]
        directions = nn.functional.normalize(features.weights.detach().double(), dim=-1)
        self.weights = nn.Parameter(directions.to(dtype))  # [M, d]
        energies, device = tuple(features.match(kernel).shared.tolist()), self.weights.device
        precisions = torch.float32, torch.float64
        self.sigma = {dtype: polynomial(energies, features.dimension, dtype, device) for dtype in precisions}

    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N M"]:
        radius, direction = project(lift(X / self.scales))
        t = direction @ self.weights.T  # [N, M]
        return radius.unsqueeze(-1) * self.sigma[t.dtype](t)


class ZonalUnits(nn.Module):
    """x ↦ v r r_z s(x̂ · ẑ): with inducing points the shape of a zonal kernel is the activation."""

    def __init__(self, features: InducingPoints, kernel: ZonalKernel, dtype: torch.dtype) -> None:
        super().__init__()
        self.scales = nn.Parameter(kernel.lengthscale.detach().to(dtype, copy=True))  # [1, D]
        radius, direction = kernel.polar(features.locations.detach().double())
        self.weights = nn.Parameter(direction.to(dtype, copy=True).detach())  # [K, d]
        amplitudes = kernel.variance.double() * radius
        self.amplitudes = nn.Parameter(amplitudes.to(dtype, copy=True).detach())  # [K]
        self.kernel = copy.deepcopy(kernel).to(dtype)

    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N K"]:
        radius, direction = project(lift(X / self.scales))
        t = (direction @ self.weights.T).clamp(-1.0, 1.0)  # [N, K]
        return radius.unsqueeze(-1) * self.amplitudes * self.kernel.shape(t)


class KernelUnits(nn.Module):
    """x ↦ k(x, Z): with inducing points any other kernel is the activation."""

    def __init__(self, features: InducingPoints, kernel: Kernel, dtype: torch.dtype) -> None:
        super().__init__()
        self.locations = nn.Parameter(features.locations.detach().to(dtype, copy=True))  # [M, D]
        self.kernel = copy.deepcopy(kernel).to(dtype)

    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N M"]:
        dims = self.kernel.active_dims  # the columns that it uses; None for all
        return self.kernel.forward(*(Y if dims is None else Y[:, dims] for Y in (X, self.locations)))


class UnitsBeside(nn.Module):
    """Units of two kinds, one beside the other."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N M"]:
        return torch.cat([self.first(X), self.second(X)], dim=-1)


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
        dtype = layer.features.whitening(layer.kernel, layer.q.mean.dtype).R.dtype
        self.units = units_of(layer.features, layer.kernel, dtype)
        self.output_weights = nn.Parameter(layer.output_weights().detach().to(dtype))  # [M, P]
        self.skip = layer.prior_mean == "identity"

    @full_precision
    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
        own = X.to(self.output_weights.dtype)
        output = self.units(own) @ self.output_weights
        output = own + output if self.skip else output
        return output.to(torch.promote_types(X.dtype, torch.float32))  # from a backbone under autocast, less may come


def units_of(features: InducingFeatures, kernel: Kernel, dtype: torch.dtype) -> nn.Module:
    """The hidden units that features are."""
    if isinstance(features, DecoupledFeatures):
        return UnitsBeside(units_of(features.activated, kernel, dtype), units_of(features.points, kernel, dtype))
    if isinstance(features, ActivatedFeatures) and isinstance(kernel, ZonalKernel):
        return ActivatedUnits(features, kernel, dtype)
    if isinstance(features, InducingPoints):
        return ZonalUnits(features, kernel, dtype) if is_zonal(kernel) else KernelUnits(features, kernel, dtype)
    return FeatureUnits(features, kernel, dtype)


def without_points(layer: GPLayer) -> bool:
    """Whether a layer's mean is that of its first block alone: points take part once they have means."""
    return not layer.q.mean[layer.q.blocks[0] :].any()


def layer_means(layers: Sequence[GPLayer]) -> list[Mean]:
    """The mean of each layer, in its own precision, as a function of its inputs, with gradients for its parameters."""
    pairs, means = [], []
    for layer in layers:
        features, m = layer.features, layer.q.means()
        if isinstance(features, DecoupledFeatures) and without_points(layer):
            features, m = features.activated, m[: features.blocks[0]]
        pairs.append((features, layer.kernel))
        means.append(m)
    found = means_of(pairs, means)
    return [_skipping(f) if layer.prior_mean == "identity" else f for layer, f in zip(layers, found, strict=True)]


def _skipping(f: Mean) -> Mean:
    return lambda X: X + f(X)


@full_precision
def mean_of(layer: GPLayer, X: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
    """The mean of one layer."""
    return layer_means((layer,))[0](X)
