"""Sparse GP regression with q(u) in closed form (Titsias, 2009), for activated and classic inducing variables.

A = L⁻¹ Kuf,   B = I + A Aᵀ/σ²,   LB = chol(B),   c = LB⁻¹ A y / σ²

bound = −N/2 log 2πσ² − Σ log diag LB − yᵀy/2σ² + cᵀc/2 − (Σ k(x,x) − Σ A²)/2σ²
q(v)  = N(LB⁻ᵀ c, B⁻¹)                                         (whitened, v = L⁻¹ u)
"""

import os
from math import log, pi
from typing import Any, ClassVar, NamedTuple

import torch
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import GaussianLikelihood
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.features import InducingFeatures, Whitening, inverse_factor, whitening
from actgp.layers import Marginals, check_pair, kernel_products
from actgp.likelihoods import gaussian, targets
from actgp.linalg import Cholesky, stable_cholesky
from actgp.models.prediction import Prediction
from actgp.persistence import Sizes, savable, save


class Posterior(NamedTuple):
    """The optimal whitened q(v): the same covariance for every output."""

    mean: Float64[Tensor, "M P"]
    scale_tril: Float64[Tensor, "M M"]


class _Factors(NamedTuple):
    whitening: Whitening
    LB: Float64[Tensor, "M M"]
    c: Float64[Tensor, "M P"]
    unexplained: Float64[Tensor, ""]  # Σ k(x,x) − Σ A²


@savable
class SGPR(nn.Module):
    """y = f(x) + noise, f ~ GP(0, k), with u integrated out of the variational bound.

    Computes in float64: kernel, features and likelihood are converted.

    Args:
        X: Inputs, [N, D].
        y: Targets, [N] or [N, P].
        kernel: The prior's kernel, shared by all outputs.
        features: The inducing features.
        likelihood: A `gpytorch.likelihoods.GaussianLikelihood`; one is made if none is given.

    Example:
        >>> import actgp, torch
        >>> X = torch.linspace(-2, 2, 30, dtype=torch.float64)[:, None]
        >>> y = torch.sin(X[:, 0])
        >>> features = actgp.ActivatedFeatures(input_dim=1, num_inducing=10)
        >>> model = actgp.SGPR(X, y, actgp.ArcCosine(input_dim=1), features)
        >>> result = actgp.fit(model)
        >>> lower, upper = model.predict(X).interval(0.9)
    """

    SIZES: ClassVar[Sizes] = {"X": ("rows", "columns"), "y": ("rows", "outputs")}
    X: Tensor
    y: Tensor

    def __init__(
        self,
        X: Float[Tensor, "N D"],
        y: Tensor,
        kernel: Kernel,
        features: InducingFeatures,
        likelihood: GaussianLikelihood | None = None,
    ) -> None:
        super().__init__()
        check_pair(kernel, features)
        checks.inputs(X, features.input_dim)
        likelihood = gaussian(likelihood)
        num_outputs = y.shape[-1] if isinstance(y, Tensor) and y.ndim == 2 else 1
        y = targets(likelihood, y, len(X), num_outputs, torch.float64)
        self.kernel, self.features, self.likelihood = kernel, features, likelihood
        self.register_buffer("X", X.double(), persistent=False)
        self.register_buffer("y", y, persistent=False)
        self.double()

    def cholesky(self) -> Cholesky:
        """The Cholesky factor of Kuu, with the jitter that it took."""
        return stable_cholesky(self.features.Kuu(self.kernel))

    def elbo(self) -> Float64[Tensor, ""]:
        """The collapsed lower bound on log p(y), summed over outputs."""
        N, P = self.y.shape
        noise = self.likelihood.noise.double().squeeze()
        _, LB, c, unexplained = self._factors()
        fit = self.y.double().square().sum() / noise - c.square().sum()
        volume = 2 * LB.diagonal().log().sum() + N * (noise.log() + log(2 * pi))
        return -0.5 * (fit + P * volume + P * unexplained / noise)

    def posterior(self) -> Posterior:
        """The q(v) at which the bound is attained."""
        _, LB, c, _ = self._factors()
        mean = torch.linalg.solve_triangular(LB.mT, c, upper=True)  # LB⁻ᵀ c
        inverse = torch.linalg.solve_triangular(LB, torch.eye(len(LB)).to(LB), upper=False)
        return Posterior(mean, stable_cholesky(inverse.mT @ inverse, relative_jitter=0.0).L)  # B⁻¹ = LB⁻ᵀ LB⁻¹

    def output_weights(self) -> Float64[Tensor, "M P"]:
        """V = L⁻ᵀ m: the mean is the network layer Kufᵀ V."""
        return inverse_factor(self.features, self.kernel).mT @ self.posterior().mean

    def forward(self, X: Float[Tensor, "N D"]) -> Marginals:
        """Means and variances of q(f(x_i)), differentiable in everything."""
        whitened, LB, c, _ = self._factors()
        A, prior = self._products(X, whitened)
        R = torch.linalg.solve_triangular(LB, A, upper=False)  # [M, N]
        # var = k − Σ A² + Σ (LB⁻¹ A)²
        variance = (prior - A.square().sum(0)).clamp_min(0.0) + R.square().sum(0)  # [N]
        return Marginals((R.T @ c).to(X), variance.unsqueeze(-1).expand(-1, self.y.shape[1]).to(X))

    @torch.no_grad()
    def predict(self, X: Float[Tensor, "N D"]) -> Prediction:
        """The predictive distribution at each input."""
        mean, variance = self(checks.inputs(X, self.features.input_dim))
        return Prediction(checks.predicted(mean.unsqueeze(0), X), variance.unsqueeze(0), self.likelihood)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model and its data to a file, all at once; `actgp.load` reads it."""
        save(self, path)

    def config(self) -> dict[str, Any]:
        """The arguments of its constructor, for files (`persistence`)."""
        parts = {"kernel": self.kernel, "features": self.features, "likelihood": self.likelihood}
        return {"X": self.X, "y": self.y, **parts}

    def _factors(self) -> _Factors:
        whitened = whitening(self.features, self.kernel)
        noise = self.likelihood.noise.double().squeeze()
        A, prior = self._products(self.X, whitened)
        B = torch.eye(len(A)).to(A) + A @ A.T / noise  # [M, M]
        LB = stable_cholesky(B, relative_jitter=0.0).L
        c = torch.linalg.solve_triangular(LB, A @ self.y.double(), upper=False) / noise  # [M, P]
        return _Factors(whitened, LB, c, prior.sum() - A.square().sum())

    def _products(self, X: Tensor, whitened: Whitening) -> tuple[Float64[Tensor, "M N"], Float64[Tensor, " N"]]:
        """A and k(x, x)."""
        A, prior = kernel_products(self.features, self.kernel, X.double(), whitened.R, whitened)
        return A.T, prior
