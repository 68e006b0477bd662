"""A GP layer as fixed tensors and plain operations: nothing is decomposed, checked or learnt, and ONNX can hold it.

    φ = φ(X̂ Ŵᵀ),   mean = μ(h) + √v r φ L⁻ᵀ m,   A = √v r φ L⁻ᵀ
    unexplained = k(x, x) − Σ A²,   explained_q = ‖A F_q‖²

With F_p = S_p for each output the variance of f_p is unexplained + explained_p. What is exact in the layer is exact
here, up to round-off. Kuf is computed in the precision that the layer needs it in, everything else in that of h.
"""

import copy
from collections.abc import Sequence
from functools import reduce
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp.distil.matern import Matern, is_matern
from actgp.distil.shapes import Shape
from actgp.features import InducingFeatures, InducingPoints, Units, Whitening
from actgp.layers import GPLayer
from actgp.layers.horizon import STEEPNESS
from actgp.linalg import times_few
from actgp.sphere import lift, project


class Passed(NamedTuple):
    """Hidden units by groups, what they and all that is linear in them are multiplied by, and k(x, x)."""

    hidden: tuple[Float[Tensor, "N _"], ...]
    amplitude: Float[Tensor, "N 1"]
    prior: Float[Tensor, " N"]


class ZonalPass(nn.Module):
    """x ↦ φ(X̂ Ŵᵀ), √v r and v r²: hidden units and inducing points under a zonal kernel.

    Args:
        units: The units, normalised.
    """

    lengthscale: Tensor
    units: Tensor
    points: Tensor
    variance: Tensor

    def __init__(self, units: Units) -> None:
        super().__init__()
        self.register_buffer("lengthscale", units.lengthscale.detach().clone())  # [1, D]
        self.register_buffer("variance", units.variance.detach().clone())
        shapes, vectors = units.shapes, units.vectors.detach()
        for name, group in (("units", vectors[: shapes.width]), ("points", vectors[shapes.width :])):
            self.register_buffer(name, contiguous(group.T, vectors.dtype))  # [d, M], [d, K]
        self.shape = None if shapes.kernel is None else Shape(shapes.kernel, vectors.dtype)
        self.activation = None if shapes.match is None else shapes.match.sigma(vectors.dtype, vectors.device)
        self.sizes = [size for size in (shapes.width, len(vectors) - shapes.width) if size > 0]

    def forward(self, X: Float[Tensor, "N D"]) -> Passed:
        radius, x = project(lift(X.to(self.lengthscale.dtype) / self.lengthscale))
        hidden = []
        if self.activation is not None:
            hidden.append(self.activation(x @ self.units))  # [N, M]
        if self.shape is not None:
            hidden.append(self.shape(x @ self.points))  # [N, K]
        amplitude = (self.variance.sqrt() * radius).unsqueeze(-1)
        return Passed(tuple(hidden), amplitude, amplitude[:, 0].square())


class KernelPass(nn.Module):
    """x ↦ Kuf and k(x, x), for inducing points under any other kernel."""

    locations: Tensor

    def __init__(self, features: InducingPoints, kernel: Kernel, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("locations", features.locations.detach().to(dtype, copy=True))  # [M, D]
        self.kernel = copy.deepcopy(kernel).requires_grad_(False).to(dtype)
        dims = kernel.active_dims
        used = self.locations if dims is None else self.locations[:, dims]
        self.matern = Matern(kernel, used) if is_matern(kernel) else None
        self.sizes = [len(self.locations)]

    def forward(self, X: Float[Tensor, "N D"]) -> Passed:
        dims = self.kernel.active_dims  # the columns that it uses; None for all
        X, Z = (Y if dims is None else Y[:, dims] for Y in (X.to(self.locations.dtype), self.locations))
        if self.matern is not None:
            prior = self.matern.variance.expand(X.shape[0])
            return Passed((self.matern(X),), torch.ones_like(prior).unsqueeze(-1), prior)
        prior = self.kernel.forward(X, X, diag=True)
        return Passed((self.kernel.forward(X, Z),), torch.ones_like(prior).unsqueeze(-1), prior)


def units_pass(features: InducingFeatures, kernel: Kernel, found: Whitening) -> ZonalPass | KernelPass:
    """What gives the hidden units of a layer."""
    if found.units is not None:
        return ZonalPass(found.units)
    if isinstance(features, InducingPoints):
        return KernelPass(features, kernel, found.dtype)
    raise TypeError(
        f"the features of a layer must be hidden units or inducing points, got {type(features).__name__}; use "
        "actgp.ActivatedFeatures, InducingPoints or DecoupledFeatures"
    )


class LayerPass(nn.Module):
    """What all passes of a layer begin with: its units, V = L⁻ᵀ m, and its prior mean.

    Args:
        layer: The layer.
        found: What whitens it.
    """

    def __init__(self, layer: GPLayer, found: Whitening) -> None:
        super().__init__()
        self.units = units_pass(layer.features, layer.kernel, found)
        weights = found.R.mT @ layer.q.mean.detach().double()  # [M, P]
        for i, group in enumerate(weights.split(self.units.sizes)):
            self.register_buffer(f"weights_{i}", contiguous(group, found.dtype))
        self.prior_mean = copy.deepcopy(layer.prior_mean)
        self.columns = layer.features.input_dim  # that the units see, where the prior mean is carried

    def passed(self, h: Float[Tensor, "N H"]) -> Passed:
        """The units of a batch."""
        return self.units(h[:, : self.columns] if self.prior_mean == "carried" else h)

    def mean(self, h: Float[Tensor, "N H"], passed: Passed) -> Float[Tensor, "N P"]:
        """μ(h) + √v r φ V."""
        parts = [times_few(hidden, self.get_buffer(f"weights_{i}")) for i, hidden in enumerate(passed.hidden)]
        output = (passed.amplitude * total(parts)).to(h.dtype).contiguous()
        if isinstance(self.prior_mean, nn.Module):
            return output + self.prior_mean(h)
        if self.prior_mean == "carried":
            return output + h[:, self.columns :]
        return output + h if self.prior_mean == "identity" else output


class MeanPass(nn.Module):
    """h ↦ the mean of a layer."""

    def __init__(self, layer: GPLayer, found: Whitening) -> None:
        super().__init__()
        self.layer = LayerPass(layer, found)

    def forward(self, h: Float[Tensor, "N H"]) -> Float[Tensor, "N P"]:
        return self.layer.mean(h, self.layer.passed(h))


class Variances(NamedTuple):
    """Means, and what variances of f consist of; the horizon's is among what is unexplained."""

    mean: Float[Tensor, "N P"]
    unexplained: Float[Tensor, " N"]
    explained: Float[Tensor, "N Q"]
    prior: Float[Tensor, " N"]


class MarginalPass(nn.Module):
    """h ↦ the mean of a layer, k(x, x) − Σ A² and ‖A F_q‖².

    What whitens is lower triangular, and F block-diagonal, by the same groups of units: only what is not zero is used.

    Args:
        layer: The layer.
        found: What whitens it.
        factors: F.
    """

    def __init__(self, layer: GPLayer, found: Whitening, factors: Float64[Tensor, "Q M M"]) -> None:
        super().__init__()
        self.layer = LayerPass(layer, found)
        self.horizon, self.num_factors = layer.horizon, len(factors)
        ends = list(accumulate(self.layer.units.sizes, initial=0))
        for i, (start, end) in enumerate(pairwise(ends)):
            for j, (first, last) in enumerate(list(pairwise(ends))[: i + 1]):
                self.register_buffer(f"whiten_{i}_{j}", contiguous(found.R[start:end, first:last].mT, found.dtype))
            block = factors.detach()[:, start:end, start:end].transpose(0, 1)  # [B, Q, B]
            self.register_buffer(f"factors_{i}", contiguous(block.flatten(1), found.dtype))

    def forward(self, h: Float[Tensor, "N H"]) -> Variances:
        passed = self.layer.passed(h)
        explained, whitened = [], []
        for i in range(len(passed.hidden)):
            parts = [passed.hidden[j] @ self.get_buffer(f"whiten_{i}_{j}") for j in range(i + 1)]
            A = total(parts)  # but for the amplitude
            products = (A @ self.get_buffer(f"factors_{i}")).unflatten(1, (self.num_factors, -1))  # [N, Q, B]
            whitened.append(A.square().sum(-1))
            explained.append(products.square().sum(-1))
        squares = passed.amplitude.square()  # [N, 1]
        unexplained = (passed.prior - squares[:, 0] * total(whitened)).clamp_min(0.0)
        if self.horizon is not None:  # v r² (r / R)^2n = v r² (v r² / v R²)^n
            assert isinstance(self.layer.units, ZonalPass)
            relative = passed.prior / (self.layer.units.variance * self.horizon**2)
            unexplained = unexplained + passed.prior * relative.pow(STEEPNESS)
        variances = (unexplained, squares * total(explained), passed.prior)
        return Variances(self.layer.mean(h, passed), *(values.to(h.dtype) for values in variances))


def total(terms: Sequence[Tensor]) -> Tensor:
    """Their sum, without a zero that it begins with."""
    return reduce(torch.add, terms)


def contiguous(block: Tensor, dtype: torch.dtype) -> Tensor:
    """A copy of it."""
    return block.to(dtype).clone(memory_format=torch.contiguous_format)
