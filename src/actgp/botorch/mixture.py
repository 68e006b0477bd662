"""The posterior of one outcome: a mixture, with equal weights, of one exact GP for each path through the hidden layers.

With H_s the rows along path s, K_s = k(H_s, H_s) + noise = L_s L_sᵀ and h_s where path s takes x,

    mean_s(x) = c + k(h_s, H_s) K_s⁻¹ (y − c)
    cov_s(x, x') = k(h_s, h_s') − k(h_s, H_s) K_s⁻¹ k(H_s, h_s')

and R functions are drawn along each path by Matheron's rule (Wilson et al., 2020), from φᵀφ ≈ k and ω, ε ~ N(0, 1):

    f_sr(x) = c + φ(h_s)ᵀ ω_sr + k(h_s, H_s) K_s⁻¹ (y − c − φ(H_s)ᵀ ω_sr − √noise ε_sr)

The mean is the function with ω = ε = 0, and stands first. Observing more rows extends L and the coefficients by the
block inverse: with B = k(H, H') and C Cᵀ = k(H', H') + noise' − Bᵀ K⁻¹ B,

    [ K  B  ]⁻¹ [ r  ]   [ K⁻¹ r − K⁻¹ B β ]
    [ Bᵀ K' ]   [ r' ] = [        β        ],     β = (C Cᵀ)⁻¹ (r' − Bᵀ K⁻¹ r)
"""

import copy
from dataclasses import dataclass, replace

import torch
from botorch.sampling.pathwise.features import gen_kernel_features
from botorch.sampling.pathwise.features.maps import FeatureMap
from jaxtyping import Float64
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from actgp.botorch.outcome import OutcomeGP, Weights
from actgp.features import Whitening

NUM_FEATURES = 1024  # of φ


@dataclass(frozen=True)
class Prior:
    """Functions drawn from the last layer's prior: φ(h)ᵀ ω."""

    features: FeatureMap
    amplitudes: Float64[Tensor, "S F R"]

    def __call__(self, h: Float64[Tensor, "*batch S N D"]) -> Float64[Tensor, "*batch S N R"]:
        """Their values."""
        return self.features(h) @ self.amplitudes


@dataclass(frozen=True)
class Mixture:
    """One GP for each of S paths, and R functions drawn from each; R = 0 where none are wanted.

    Attributes:
        outcome: The deep GP.
        weights: v of each hidden layer and path.
        found: What whitens the hidden layers.
        prior: The last layer's functions before data.
        H: The rows, along each path.
        L: The Cholesky factor of their covariance.
        coefficients: K⁻¹ times the residuals of the mean and of each function.
    """

    outcome: OutcomeGP
    weights: Weights
    found: tuple[Whitening, ...]
    prior: Prior | None
    H: Float64[Tensor, "*b S N D"]
    L: Float64[Tensor, "*b S N N"]
    coefficients: Float64[Tensor, "*y S N 1+R"]

    @property
    def num_paths(self) -> int:
        """S."""
        return self.H.shape[-3]

    def bent(self, X: Float64[Tensor, "*b N D"]) -> Float64[Tensor, "*b S N D"]:
        """Where each path takes inputs."""
        h = self.outcome.bent(X.flatten(0, -2).unsqueeze(0), self.weights, self.found)  # [S or 1, b N, D]
        return h.expand(self.num_paths, -1, -1).unflatten(1, X.shape[:-1]).movedim(0, -3)

    def bent_in_pairs(self, X: Float64[Tensor, "*b S N D"]) -> Float64[Tensor, "*b S N D"]:
        """Where each path takes inputs of its own."""
        rows = X.movedim(-3, 0)  # [S, *b, N, D]
        h = self.outcome.bent(rows.flatten(1, -2), self.weights, self.found)
        return h.unflatten(1, rows.shape[1:-1]).movedim(0, -3)

    def functions_at(self, h: Float64[Tensor, "*b S N D"]) -> Float64[Tensor, "*b S N 1+R"]:
        """The mean and the functions of each path, where it takes inputs."""
        if self.coefficients.ndim == 3 and h.ndim > 3:  # as one matrix for each path: several times faster
            rows = h.movedim(-3, 0)  # [S, *b, N, D]
            return self.functions_at(rows.flatten(1, -2)).unflatten(1, rows.shape[1:-1]).movedim(0, -3)
        values = self._covariance(h, self.H) @ self.coefficients
        if self.prior is not None:
            values = values + _after_zero(self.prior(h))
        return self.outcome.mean_module.constant + values

    def functions(self, X: Float64[Tensor, "*b N D"]) -> Float64[Tensor, "*b RS N"]:
        """All drawn functions: the first of each path, then the second of each."""
        values = self.functions_at(self.bent(X))[..., 1:]  # [*b, S, N, R]
        return values.movedim(-1, -3).flatten(-3, -2)  # [*b, R, S, N] to [*b, RS, N]

    def moments(self, X: Float64[Tensor, "*b N D"]) -> tuple[Float64[Tensor, "*b N"], Float64[Tensor, "*b N N"]]:
        """Mean and covariance of the mixture: E cov_s + Cov mean_s."""
        h = self.bent(X)
        cross = self._covariance(h, self.H)  # [*b, S, N, n]
        means = (self.outcome.mean_module.constant + cross @ self.coefficients[..., :1]).squeeze(-1)  # [*b, S, N]
        V = torch.linalg.solve_triangular(self.L, cross.mT, upper=False)
        covariance = (self.outcome.covar_module(h).to_dense() - V.mT @ V).mean(-3)
        mean = means.mean(-2)
        apart = (means - mean.unsqueeze(-2)).mT  # [*b, N, S]
        return mean, covariance + apart @ apart.mT / self.num_paths

    def observing(
        self,
        X: Float64[Tensor, "*b N D"],
        y: Float64[Tensor, "*y N"],
        noise: Float64[Tensor, "*b N"],
        generator: torch.Generator,
    ) -> "Mixture":
        """The posterior after more rows; differentiable in them."""
        H = self.bent(X)  # [*b, S, N', D]
        B = self._covariance(self.H, H)  # [*b, S, N, N']
        V = torch.linalg.solve_triangular(self.L, B, upper=False)
        K = self.outcome.covar_module(H).to_dense() + torch.diag_embed(noise).unsqueeze(-3)
        C = psd_safe_cholesky(K - V.mT @ V)
        residuals = self._residuals(H, y, noise, generator)  # [*y, S, N', 1 + R]
        beta = torch.cholesky_solve(residuals - B.mT @ self.coefficients, C)
        alpha = self.coefficients - torch.linalg.solve_triangular(self.L.mT, V, upper=True) @ beta
        top = torch.cat(_alike(self.L, torch.zeros_like(V)), -1)
        L = torch.cat(_alike(top, torch.cat([V.mT, C], -1)), -2)
        return replace(self, H=torch.cat(_alike(self.H, H), -2), L=L, coefficients=torch.cat(_alike(alpha, beta), -2))

    def without_functions(self) -> "Mixture":
        """The same posterior, of which only moments are wanted."""
        return replace(self, prior=None, coefficients=self.coefficients[..., :1])

    def _covariance(self, h: Tensor, others: Tensor) -> Tensor:
        covariance: Tensor = self.outcome.covar_module(h, others).to_dense()
        return covariance

    def _residuals(self, H: Tensor, y: Tensor, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Y − c of the mean; y − c − φᵀω − √noise ε of the functions."""
        residuals = (y - self.outcome.mean_module.constant)[..., None, :, None]
        if self.prior is None:
            return residuals.expand(*residuals.shape[:-3], self.num_paths, -1, -1)
        shape = (self.num_paths, y.shape[-1], self.prior.amplitudes.shape[-1])
        noises = torch.randn(shape, dtype=torch.float64, generator=generator).to(y)
        return residuals - _after_zero(self.prior(H) + noise.sqrt()[..., None, :, None] * noises)


@torch.no_grad()
def condition(
    outcome: OutcomeGP,
    X: Float64[Tensor, "N D"],
    y: Float64[Tensor, " N"],
    num_paths: int,
    num_functions: int,
    seed: int,
) -> Mixture:
    """The posterior given data.

    Args:
        outcome: The deep GP.
        X: The rows, in the unit cube.
        y: Their outcomes, standardised.
        num_paths: S.
        num_functions: How many functions are drawn along each path.
        seed: The same seed draws the same paths and functions.
    """
    outcome = copy.deepcopy(outcome).requires_grad_(False)  # training it afterwards does not change the posterior
    generator, S = torch.Generator().manual_seed(seed), num_paths
    weights, found = outcome.weights(S, generator), outcome.whitenings()
    prior = None if num_functions == 0 else _prior(outcome, X, S, num_functions, seed, generator)
    nothing = X.new_zeros(S, 0, X.shape[-1])
    empty = Mixture(outcome, weights, found, prior, nothing, X.new_zeros(S, 0, 0), X.new_zeros(S, 0, 1 + num_functions))
    return empty.observing(X, y, outcome.noise.expand(len(X)), generator)


def _prior(outcome: OutcomeGP, X: Tensor, S: int, R: int, seed: int, generator: torch.Generator) -> Prior:
    with torch.random.fork_rng(devices=[]):  # BoTorch draws frequencies from torch's own generator
        torch.manual_seed(seed)
        features = gen_kernel_features(outcome.covar_module, X.shape[-1], NUM_FEATURES)
    amplitudes = torch.randn(S, NUM_FEATURES, R, dtype=torch.float64, generator=generator)
    return Prior(features, amplitudes.to(X))


def _after_zero(values: Tensor) -> Tensor:
    """With a column of zeros, the mean's, in front."""
    return torch.nn.functional.pad(values, (1, 0))


def _alike(*tensors: Tensor) -> list[Tensor]:
    """With the same batch, to be joined along one of the last two dimensions."""
    batch = torch.broadcast_shapes(*(t.shape[:-2] for t in tensors))
    return [t.expand(*batch, *t.shape[-2:]) for t in tensors]
