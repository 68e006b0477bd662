"""A GP layer's mean as a layer of a network: plain tensors and operations, ready for export.

hidden = r σ̃(W x̂) for activations, r s(Z x̂) for inducing points, or k(Z, x);   output = Vᵀ hidden (+ x)
"""

import copy

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor, nn

from actgp.autocast import full_precision
from actgp.features import InducingFeatures, InducingPoints, Units, whitening
from actgp.layers.gp_layer import GPLayer
from actgp.sphere import lift, project


class HiddenUnits(nn.Module):
    """x ↦ r φ(W x̂), x̃ = [x / ℓ, 1]: hidden units with their bias and input scales, as in `features.units`.

    Args:
        units: The units, in the precision that the network begins in; it may be cast to another.
    """

    def __init__(self, units: Units) -> None:
        super().__init__()
        self.scales = nn.Parameter(units.lengthscale.clone())  # [1, D]
        self.weights = nn.Parameter(units.vectors.clone())  # [M, d]
        self.kernel, self.width = copy.deepcopy(units.shapes.kernel), units.shapes.width
        match, device = units.shapes.match, units.vectors.device
        self.activations = {
            dtype: None if match is None else match.sigma(dtype, device) for dtype in (torch.float32, torch.float64)
        }

    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N M"]:
        radius, direction = project(lift(X / self.scales))
        t, hidden = direction @ self.weights.T, []  # [N, M]
        if (activation := self.activations[X.dtype]) is not None:
            hidden.append(activation(t[:, : self.width]))
        if self.kernel is not None:
            hidden.append(self.kernel.shape(t[:, self.width :].clamp(-1.0, 1.0)))
        return radius.unsqueeze(-1) * torch.cat(hidden, dim=1)


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
    """The mean of a GP layer: hidden units, output weights V, and the prior mean.

    In the precision that the layer's Kuf has to have: its inputs, and what it gives, may have another.
    """

    def __init__(self, layer: GPLayer) -> None:
        super().__init__()
        with torch.no_grad():
            R, dtype, units = whitening(layer.features, layer.kernel, layer.q.raw_mean.dtype)
            V = R.mT @ layer.q.mean.double()  # [M, P]
            if units is not None:
                V = units.variance.double().sqrt() * V
            self.units = HiddenUnits(units) if units is not None else _units_of(layer.features, layer.kernel, dtype)
            self.output_weights = nn.Parameter(V.to(dtype))
        self.prior_mean = copy.deepcopy(layer.prior_mean)
        self.columns = layer.features.input_dim  # that the units see, where the prior mean is carried

    @full_precision
    def forward(self, h: Float[Tensor, "N H"]) -> Float[Tensor, "N P"]:
        own = h.to(self.output_weights.dtype)
        X = own[:, : self.columns] if self.prior_mean == "carried" else own
        output = self.units(X) @ self.output_weights
        if isinstance(self.prior_mean, nn.Module):
            output = output + self.prior_mean(h)
        elif self.prior_mean == "carried":
            output = output + own[:, self.columns :]
        elif self.prior_mean == "identity":
            output = output + own
        return output.to(torch.promote_types(h.dtype, torch.float32))  # from a backbone under autocast, less may come


def _units_of(features: InducingFeatures, kernel: Kernel, dtype: torch.dtype) -> nn.Module:
    """What features are that do not consist of hidden units."""
    if isinstance(features, InducingPoints):
        return KernelUnits(features, kernel, dtype)
    return FeatureUnits(features, kernel, dtype)
