"""One GP layer: a prior, inducing features, and q(u). The paper's eq. 2, whitened.

L = chol(Kuu + jitter),   A = L⁻¹ Kuf
mean  = Aᵀ m  = Kufᵀ V,   V = L⁻ᵀ m           (V: the output weights of the network layer)
var_p = k(x, x) − Σ A² + Σ (S_pᵀ A)²
"""

import warnings
from typing import NamedTuple

import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.features import InducingFeatures, SpectralMismatchWarning
from actgp.layers.whitened import WhitenedGaussian
from actgp.linalg import Cholesky, stable_cholesky


class Marginals(NamedTuple):
    """Independent Gaussians, one for each input and output."""

    mean: Float[Tensor, "N P"]
    variance: Float[Tensor, "N P"]


class GPLayer(nn.Module):
    """P independent GPs that share a kernel and inducing features.

    Args:
        kernel: A zonal kernel for activated features, any gpytorch kernel for inducing points.
        features: The inducing features.
        num_outputs: P.
    """

    def __init__(self, kernel: Kernel, features: InducingFeatures, num_outputs: int = 1) -> None:
        super().__init__()
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"kernel must be a gpytorch kernel, got {type(kernel).__name__}; pass e.g. actgp.ArcCosine(D)"
            )
        if not isinstance(features, InducingFeatures):
            raise TypeError(
                f"features must be inducing features, got {type(features).__name__}; "
                "pass actgp.ActivatedFeatures or actgp.InducingPoints"
            )
        self.num_outputs = checks.integer(num_outputs, "num_outputs", minimum=1)
        warn_of_mismatch(kernel, features)
        self.kernel = kernel
        self.features = features
        self.q = WhitenedGaussian(features.num_inducing, self.num_outputs)

    @property
    def input_dim(self) -> int:
        """D."""
        return self.features.input_dim

    def cholesky(self) -> Cholesky:
        """L of Kuu, in float64, with the jitter that it took."""
        return stable_cholesky(self.features.Kuu(self.kernel), self.q.mean.dtype)

    def whiten(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        """A = L⁻¹ Kuf, in the precision of X."""
        return solve_whitened(self.cholesky().L, self.features.Kuf(self.kernel, X))

    def forward(self, X: Float[Tensor, "N D"]) -> Marginals:
        """The marginals of q(f(x_i)) for each output."""
        A = self.whiten(X)  # [M, N]
        S = self.q.scale_tril  # [P, M, M]
        M, N = A.shape
        SA = (S.mT.reshape(-1, M) @ A).reshape(-1, M, N)  # one product for all outputs: [P, M, N]
        unexplained = self.unexplained(X, A)  # [N]
        variance = unexplained + SA.square().sum(-2)  # [P, N]
        return Marginals(A.T @ self.q.mean, variance.T)

    def unexplained(self, X: Float[Tensor, "N D"], A: Float[Tensor, "M N"]) -> Float[Tensor, " N"]:
        """k(x, x) − Σ A²: the prior variance that no q(u) can explain; never below zero."""
        diagonal: Tensor = self.kernel(X, diag=True)
        return (diagonal - A.square().sum(-2)).clamp_min(0.0)

    def joint(self, X: Float[Tensor, "N D"]) -> MultivariateNormal:
        """q(f(x_1), …, f(x_N)), batched over outputs: [P] Gaussians of dimension N."""
        A = self.whiten(X)
        SA = self.q.scale_tril.mT @ A  # [P, M, N]
        prior: Tensor = self.kernel(X).to_dense()
        return MultivariateNormal((A.T @ self.q.mean).T, prior - A.T @ A + SA.mT @ SA)

    def output_weights(self) -> Float64[Tensor, "M P"]:
        """V = L⁻ᵀ m: the layer's mean is the network layer Kufᵀ V = Vᵀ σ̃(W x̃)."""
        return torch.linalg.solve_triangular(self.cholesky().L.mT, self.q.mean.double(), upper=True)

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(u) ‖ p(u)), summed over outputs."""
        return self.q.kl()


def solve_whitened(L: Float64[Tensor, "M M"], Kuf: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    """L⁻¹ Kuf, solved in float64 and cast back."""
    return torch.linalg.solve_triangular(L, Kuf.double(), upper=False).to(Kuf)


def warn_of_mismatch(kernel: Kernel, features: InducingFeatures) -> None:
    """Warns of what the features lose under this kernel, with the remedies."""
    for complaint in features.complaints(kernel):
        warnings.warn(complaint, SpectralMismatchWarning, stacklevel=3)
