"""One GP layer: a prior, inducing features, and q(u). The paper's eq. 2, whitened.

    L = chol(Kuu + jitter),   A = Kfu L⁻ᵀ
    mean  = A m  = Kfu V,     V = L⁻ᵀ m           (V: the output weights of the network layer)
    var_p = k(x, x) − Σ A² + Σ (A S_p)²

With a prior mean μ the layer is f(h) = μ(h) + g(h), g ~ GP(0, k): at m = 0 its mean is μ, and the KL charges nothing
for it. μ may be h itself, a skip connection of the network layer; a module, such as a whole trained network; or what
h carries beside the inputs of g.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks, fused
from actgp.autocast import full_precision
from actgp.features import (
    DecoupledFeatures,
    InducingFeatures,
    Whitening,
    inverse_factor,
    through_units,
    whitening,
    whitenings,
)
from actgp.layers.horizon import Horizon, check_horizon
from actgp.layers.pairing import check_pair
from actgp.layers.variational import (
    Marginals,
    Scales,
    WhitenedGaussian,
    conditional_marginals,
    scales_of,
    unexplained,
)
from actgp.linalg import Cholesky, stable_cholesky
from actgp.persistence import Sizes, refuse_to_save, savable

ROWS = 512  # of a prediction, for each thread: what a layer makes of them stays in the cache

PriorMean = Literal["zero", "identity", "carried"] | nn.Module
Mean = Callable[[Float[Tensor, "N D"]], Float[Tensor, "N P"]]


class Constants(NamedTuple):
    """What does not depend on x: computed once for a whole prediction."""

    whitening: Whitening
    mean: Float[Tensor, "M P"]
    scales: Scales


@savable
class GPLayer(nn.Module):
    """P independent GPs that share a kernel and inducing features.

    Args:
        kernel: A zonal kernel for activated features, any gpytorch kernel for inducing points.
        features: The inducing features.
        num_outputs: P.
        prior_mean: "zero"; "identity" for f(h) = h + g(h), a skip connection, with as many outputs as inputs; a module,
            from h to [N, P]; or "carried", where the last P columns of h are the prior mean and g sees the others.
        horizon: R, the radius ‖[x / ℓ, 1]‖ beyond which a layer with a zonal kernel forgets (`Horizon`); None if never.

    Example:
        >>> import actgp, torch
        >>> features = actgp.ActivatedFeatures(input_dim=2, num_inducing=10)
        >>> layer = actgp.GPLayer(actgp.ArcCosine(2), features, num_outputs=3)
        >>> means, variances = layer(torch.randn(7, 2))
        >>> means.shape
        torch.Size([7, 3])
    """

    SIZES: ClassVar[Sizes] = {
        "q.raw_mean": ("features.num_inducing", "num_outputs"),
        "q.raw_scale_tril": ("num_outputs", "features.num_inducing", "features.num_inducing"),
    }

    def __init__(
        self,
        kernel: Kernel,
        features: InducingFeatures,
        num_outputs: int = 1,
        prior_mean: PriorMean = "zero",
        *,
        horizon: float | None = None,
    ) -> None:
        super().__init__()
        check_pair(kernel, features)
        self.num_outputs = checks.integer(num_outputs, "num_outputs", minimum=1)
        if not isinstance(prior_mean, nn.Module):
            checks.choice(prior_mean, "prior_mean", ("zero", "identity", "carried"))
        self.prior_mean: PriorMean = prior_mean
        if prior_mean == "identity" and self.num_outputs != features.input_dim:
            raise ValueError(
                f"an identity prior mean needs as many outputs as inputs, got {self.num_outputs} and "
                f"{features.input_dim}; use prior_mean='zero' there"
            )
        self.horizon = None if horizon is None else check_horizon(kernel, horizon)
        self.kernel = kernel
        self.features = features
        self.q = WhitenedGaussian(features.num_inducing, self.num_outputs, features.blocks, features.num_means)

    def config(self) -> dict[str, Any]:
        """The arguments of its constructor, for files, except the number of outputs (`persistence`)."""
        if type(self.q) is not WhitenedGaussian:
            refuse_to_save("q of a layer", ["WhitenedGaussian"], self.q)
        return {
            "kernel": self.kernel,
            "features": self.features,
            "prior_mean": self.prior_mean,
            "horizon": self.horizon,
        }

    @property
    def input_dim(self) -> int:
        """The columns of h: those that g sees, and the prior mean if it is carried."""
        return self.features.input_dim + (self.num_outputs if self.prior_mean == "carried" else 0)

    def split(self, h: Float[Tensor, "N H"]) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N P"] | None]:
        """What g is given of h, and μ(h), None for zero."""
        if isinstance(self.prior_mean, nn.Module):
            mean = self.prior_mean(h)
            expected = [len(h), self.num_outputs]
            if not isinstance(mean, Tensor) or list(mean.shape) != expected:
                got = list(mean.shape) if isinstance(mean, Tensor) else type(mean).__name__
                raise ValueError(f"a prior mean must give {expected}, got {got}; wrap it in a module that does")
            return h, mean
        if self.prior_mean == "carried":
            D = self.features.input_dim
            return h[:, :D], h[:, D:]
        return h, h if self.prior_mean == "identity" else None

    def cholesky(self) -> Cholesky:
        """L of Kuu, in float64, with the jitter that it took; `DecoupledFeatures` whiten with one for each block."""
        return stable_cholesky(self.features.Kuu(self.kernel))

    def inverse_cholesky(self) -> Float64[Tensor, "M M"]:
        """L⁻¹, L Lᵀ = Kuu."""
        return inverse_factor(self.features, self.kernel)

    @full_precision
    def constants(self) -> Constants:
        """L⁻¹, m and S, ready for use."""
        return constants_and_kl((self,))[0][0]

    @full_precision
    def whiten(self, h: Float[Tensor, "N H"]) -> Float[Tensor, "N M"]:
        """A = Kfu L⁻ᵀ, in the precision of h."""
        return self._whiten(self.split(h)[0], whitening(self.features, self.kernel))[0]

    def forward(self, h: Float[Tensor, "N H"]) -> Marginals:
        """The marginals of q(f(h_i)) for each output."""
        return self.marginals(h, self.constants())

    @full_precision
    def marginals(self, h: Float[Tensor, "N H"], constants: Constants) -> Marginals:
        """As `forward`, with what does not depend on h already computed; some rows at a time, without gradients."""
        if torch.is_grad_enabled() or len(h) <= (rows := ROWS * torch.get_num_threads()):
            return self._marginals(h, constants)
        parts = [self._marginals(part, constants) for part in h.split(rows)]
        return Marginals(*(torch.cat(values) for values in zip(*parts, strict=True)))

    def _marginals(self, h: Float[Tensor, "N H"], constants: Constants) -> Marginals:
        X, prior_mean = self.split(h)
        found, m, scales = constants
        formula = fused.conditional_marginals if torch.is_grad_enabled() else conditional_marginals
        mean, variance = formula(*self._whiten(X, found), m, *scales)
        if (beyond := self.beyond) is not None:
            variance = variance + beyond.variance(X).unsqueeze(-1)
        return Marginals(mean if prior_mean is None else mean + prior_mean, variance)

    @property
    def beyond(self) -> Horizon | None:
        """What prevails beyond the horizon, if there is one."""
        return None if self.horizon is None else Horizon(self.kernel, self.horizon)

    @full_precision
    def unexplained(self, h: Float[Tensor, "N H"]) -> Float[Tensor, " N"]:
        """The part of the prior variance k(x, x) that no q(u) can explain: 1 − Σ A² / k(x, x), never below zero.

        Beyond a horizon, which adds b to k and of which u knows nothing, 1 − (Σ A² / k) / (1 + b / k).
        """
        X, _ = self.split(h)
        A, prior = self._whiten(X, whitening(self.features, self.kernel))
        rest = unexplained(A, prior) / prior
        return rest if (beyond := self.beyond) is None else 1 - (1 - rest) / (1 + beyond.variance(X) / prior)

    @full_precision
    def joint(self, h: Float[Tensor, "N H"]) -> MultivariateNormal:
        """q(f(h_1), …, f(h_N)), batched over outputs: [P] Gaussians of dimension N."""
        X, prior_mean = self.split(h)
        A = self.whiten(h)
        AS = A @ self.q.scale_tril  # [P, N, M]
        prior: Tensor = self.kernel(X).to_dense()
        if (beyond := self.beyond) is not None:
            prior = prior + beyond.covariance(X)
        mean = A @ self.q.mean if prior_mean is None else prior_mean + A @ self.q.mean
        return MultivariateNormal(mean.T, prior - A @ A.T + AS @ AS.mT)

    @full_precision
    def output_weights(self) -> Float64[Tensor, "M P"]:
        """V = L⁻ᵀ m: the layer's mean is the network layer Kufᵀ V = Vᵀ σ̃(W x̃)."""
        return self.inverse_cholesky().mT @ self.q.mean.double()

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(u) ‖ p(u)), summed over outputs."""
        return self.q.kl()

    def _whiten(self, X: Float[Tensor, "N D"], found: Whitening) -> tuple[Tensor, Tensor]:
        """A and k(x, x), in the precision of X; Kuf in that of L⁻¹."""
        A, prior = kernel_products(self.features, self.kernel, X, found.R, found)
        return A.to(X.dtype), prior.to(X.dtype)


def kernel_products(
    features: InducingFeatures, kernel: Kernel, X: Float[Tensor, "N D"], B: Float64[Tensor, "K M"], found: Whitening
) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
    """Kfu Bᵀ and k(x, x), in the precision of the whitening; through hidden units, where features consist of them."""
    X, B = X.to(found.dtype), B.to(found.dtype)
    if found.units is not None:
        formula = fused.through_units if torch.is_grad_enabled() else through_units
        return formula(X, found.units, B)
    return features.cross(kernel, X).T @ B.T, kernel(X, diag=True)


def constants_and_kl(layers: Sequence[GPLayer]) -> tuple[list[Constants], Float[Tensor, ""]]:
    """What does not depend on x, of several layers of one precision, and the sum of their KL(q(u) ‖ p(u))."""
    found = whitenings([(layer.features, layer.kernel) for layer in layers], layers[0].q.raw_mean.dtype)
    scales = [scales_of(layer.q.raw_scale_tril, layer.q.blocks) for layer in layers]
    constants = [Constants(w, layer.q.mean, S) for w, layer, S in zip(found, layers, scales, strict=True)]
    return constants, torch.stack([layer.q.kl(S) for layer, S in zip(layers, scales, strict=True)]).sum()


@full_precision
def mean_functions(layers: Sequence[GPLayer]) -> list[Mean]:
    """h ↦ μ(h) + Kfu V, V = L⁻ᵀ m: the mean of each layer, in its own precision, with gradients for its parameters.

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
    found = whitenings(pairs, means[0].dtype)
    return [
        partial(_mean_at, layer, features, m.T.double() @ w.R, w)
        for layer, (features, _), m, w in zip(layers, pairs, means, found, strict=True)
    ]


@full_precision
def _mean_at(
    layer: GPLayer,
    features: InducingFeatures,
    outputs: Float64[Tensor, "P M"],
    found: Whitening,
    h: Float[Tensor, "N H"],
) -> Float[Tensor, "N P"]:
    """μ(h) + Kfu V, for Vᵀ."""
    X, prior_mean = layer.split(h)
    f = kernel_products(features, layer.kernel, X, outputs, found)[0].to(h.dtype)
    return f if prior_mean is None else prior_mean + f


def mean_function(layer: GPLayer) -> Mean:
    """The mean of one layer, likewise."""
    return mean_functions((layer,))[0]
