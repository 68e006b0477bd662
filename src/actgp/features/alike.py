"""Layers that are alike: what does not depend on x is found for all of them at once.

Layers with as many units and points, the same number of inputs and the same spectra have their M × M matrices in one
stack. On matrices as small as these, calling an operation costs as much as carrying it out.
"""

from collections.abc import Callable, Hashable, Sequence

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from actgp.features.activated import ActivatedFeatures
from actgp.features.base import InducingFeatures, Whitening
from actgp.features.decoupled import DecoupledFeatures
from actgp.features.decoupled_whitening import decoupled_whitenings
from actgp.features.match import SpectralMatch
from actgp.features.output_weights import NetworkWeights, network_weights
from actgp.features.units import units
from actgp.features.whitening import whitenings

Pair = tuple[InducingFeatures, Kernel]
Mean = Callable[[Float[Tensor, "N D"]], Float[Tensor, "N P"]]


def whitenings_of(pairs: Sequence[Pair], dtype: torch.dtype) -> list[Whitening]:
    """The whitening of each pair of features and kernel, as `InducingFeatures.whitening` gives it.

    Those of layers that are alike have one gradient: they go backwards together.
    """
    found: dict[int, Whitening] = {}
    for match, places in _groups(pairs):
        features, kernels = zip(*(pairs[i] for i in places), strict=True)
        if isinstance(features[0], DecoupledFeatures):
            layers = [own.parameters_of(kernel) for own, kernel in zip(features, kernels, strict=True)]
            decoupled = decoupled_whitenings(layers, kernels[0], match, dtype)
            for i, layer, (directions, R, amplitudes) in zip(places, layers, decoupled, strict=True):
                found[i] = Whitening(R, directions, match, layer.variance, amplitudes)
        else:
            variances = [kernel.variance for kernel in kernels]
            parts = whitenings([own.weights for own in features], variances, match, dtype)
            for i, (directions, R, relative), variance in zip(places, parts, variances, strict=True):
                found[i] = Whitening(R, directions, match, variance, relative=relative)
    return [found.get(i) or features.whitening(kernel, dtype) for i, (features, kernel) in enumerate(pairs)]


def means_of(pairs: Sequence[Pair], means: Sequence[Float[Tensor, "M P"]]) -> list[Mean]:
    """x ↦ Kfu V, V = L⁻ᵀ m, for each pair of features and kernel and its whitened m."""
    found: dict[int, Mean] = {}
    for match, places in _groups(pairs):
        features, kernels = zip(*(pairs[i] for i in places), strict=True)
        if isinstance(features[0], ActivatedFeatures):
            variances = [kernel.variance for kernel in kernels]
            parts = network_weights([own.weights for own in features], variances, [means[i] for i in places], match)
            for i, kernel, weights, variance in zip(places, kernels, parts, variances, strict=True):
                found[i] = _mean_of_units(kernel, weights, variance, match)
    return [found.get(i) or _mean(*pair, m) for i, (pair, m) in enumerate(zip(pairs, means, strict=True))]


def _groups(pairs: Sequence[Pair]) -> list[tuple[SpectralMatch, list[int]]]:
    """Pairs with units whose energies are fixed, by their places: those in a group are alike.

    Features of other classes, those derived from these among them, may whiten as they like.
    """
    groups: dict[Hashable, tuple[SpectralMatch, list[int]]] = {}
    for i, (features, kernel) in enumerate(pairs):
        if type(features) not in (ActivatedFeatures, DecoupledFeatures):
            continue
        if (match := features.fixed_match(kernel)) is not None:  # the same object for the same spectra
            groups.setdefault((type(features), id(match), features.blocks), (match, []))[1].append(i)
    return list(groups.values())


def _mean_of_units(kernel: Kernel, weights: NetworkWeights, variance: Tensor, match: SpectralMatch) -> Mean:
    def mean(X: Tensor) -> Tensor:
        own = X.to(weights.outputs.dtype)
        lengthscale, sigma = kernel.lengthscale.to(own), match.sigma(own.dtype, own.device)
        return units(own, lengthscale, weights.directions, variance.to(own), weights.outputs, sigma)[0].to(X.dtype)

    return mean


def _mean(features: InducingFeatures, kernel: Kernel, m: Float[Tensor, "M P"]) -> Mean:
    whitening = features.whitening(kernel, m.dtype)
    dtype = whitening.R.dtype
    outputs = (m.double().T @ whitening.R.double()).to(dtype)  # Vᵀ = mᵀ L⁻¹: [P, M]
    return lambda X: features.through(kernel, X.to(dtype), outputs, whitening)[0].to(X.dtype)
