"""One GP layer: a prior, inducing features, and q(u). The paper's eq. 2, whitened.

L = chol(Kuu + jitter),   A = L⁻¹ Kuf
mean  = Aᵀ m  = Kufᵀ V,   V = L⁻ᵀ m           (V: the output weights of the network layer)
var_p = k(x, x) − Σ A² + Σ (S_pᵀ A)²
"""

import inspect
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
        check_pair(kernel, features)
        self.num_outputs = checks.integer(num_outputs, "num_outputs", minimum=1)
        self.kernel = kernel
        self.features = features
        self.q = WhitenedGaussian(features.num_inducing, self.num_outputs)

    @property
    def input_dim(self) -> int:
        """D."""
        return self.features.input_dim

    def cholesky(self) -> Cholesky:
        """L of Kuu, in float64, with the jitter that it took."""
        return stable_cholesky(self.features.Kuu(self.kernel))

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


def check_pair(kernel: Kernel, features: InducingFeatures) -> None:
    """Refuses a kernel and features that cannot work together, and warns of those that do so badly."""
    if not isinstance(features, InducingFeatures):
        raise TypeError(
            f"features must be inducing features, got {type(features).__name__}; "
            "pass actgp.ActivatedFeatures or actgp.InducingPoints"
        )
    check_kernel(kernel)
    if kernel.active_dims is None and kernel.ard_num_dims not in (None, features.input_dim):
        raise ValueError(
            f"kernel and features must have the same number of inputs, got {kernel.ard_num_dims} and "
            f"{features.input_dim}; build both with the number of columns of X"
        )
    for complaint in features.complaints(kernel):
        warnings.warn(complaint, SpectralMismatchWarning, stacklevel=_levels_to_the_caller())


def check_kernel(kernel: Kernel) -> None:
    """Refuses what is no kernel, and batches of kernels."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a gpytorch kernel, got {type(kernel).__name__}; pass e.g. actgp.ArcCosine(D)")
    if kernel.batch_shape:
        raise ValueError(
            f"the kernel must have no batch_shape, got {list(kernel.batch_shape)}; build one model for each element"
        )


def _levels_to_the_caller() -> int:
    """How far up the stack the first frame outside this package is, seen from the caller of this function."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("actgp."):
        frame, level = frame.f_back, level + 1
    return level
