"""One GP layer: a prior, inducing features, and q(u). The paper's eq. 2, whitened.

    L = chol(Kuu + jitter),   A = L⁻¹ Kuf
    mean  = Aᵀ m  = Kufᵀ V,   V = L⁻ᵀ m           (V: the output weights of the network layer)
    var_p = k(x, x) − Σ A² + Σ (S_pᵀ A)²

A prior mean of x itself, instead of zero, is a skip connection of the network layer.
"""

from typing import Literal, NamedTuple

from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.features import InducingFeatures
from actgp.layers.pairing import check_pair
from actgp.layers.whitened import WhitenedGaussian
from actgp.linalg import Cholesky, inverse_cholesky, stable_cholesky, sums_of_squares

PriorMean = Literal["zero", "identity"]


class Marginals(NamedTuple):
    """Independent Gaussians, one for each input and output."""

    mean: Float[Tensor, "N P"]
    variance: Float[Tensor, "N P"]


class Constants(NamedTuple):
    """What does not depend on x: computed once for a whole prediction."""

    R: Float64[Tensor, "M M"]  # L⁻¹
    mean: Float[Tensor, "M P"]
    scales: Float[Tensor, "P M M"]  # S_pᵀ


class GPLayer(nn.Module):
    """P independent GPs that share a kernel and inducing features.

    Args:
        kernel: A zonal kernel for activated features, any gpytorch kernel for inducing points.
        features: The inducing features.
        num_outputs: P.
        prior_mean: "zero", or "identity" for f(x) = x + GP, a skip connection, with as many outputs as inputs.
    """

    def __init__(
        self, kernel: Kernel, features: InducingFeatures, num_outputs: int = 1, prior_mean: PriorMean = "zero"
    ) -> None:
        super().__init__()
        check_pair(kernel, features)
        self.num_outputs = checks.integer(num_outputs, "num_outputs", minimum=1)
        self.prior_mean: PriorMean = checks.choice(prior_mean, "prior_mean", ("zero", "identity"))
        if prior_mean == "identity" and self.num_outputs != features.input_dim:
            raise ValueError(
                f"an identity prior mean needs as many outputs as inputs, got {self.num_outputs} and "
                f"{features.input_dim}; use prior_mean='zero' there"
            )
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

    def inverse_cholesky(self) -> Float64[Tensor, "M M"]:
        """L⁻¹."""
        return inverse_cholesky(self.features.Kuu(self.kernel))

    def constants(self) -> Constants:
        """L⁻¹, m and S, ready for use."""
        return Constants(self.inverse_cholesky(), self.q.mean, self.q.scale_tril.mT.contiguous())

    def whiten(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        """A = L⁻¹ Kuf, in the precision of X."""
        return self._whiten(X, self.inverse_cholesky())

    def forward(self, X: Float[Tensor, "N D"]) -> Marginals:
        """The marginals of q(f(x_i)) for each output."""
        return self.marginals(X, self.constants())

    def marginals(self, X: Float[Tensor, "N D"], constants: Constants) -> Marginals:
        """As `forward`, with what does not depend on X already computed."""
        A = self._whiten(X, constants.R)  # [M, N]
        variance = self.unexplained(X, A) + sums_of_squares(constants.scales, A)  # [P, N]
        return Marginals(self._with_prior_mean(A.T @ constants.mean, X), variance.T)

    def unexplained(self, X: Float[Tensor, "N D"], A: Float[Tensor, "M N"]) -> Float[Tensor, " N"]:
        """k(x, x) − Σ A²: the prior variance that no q(u) can explain; never below zero."""
        diagonal: Tensor = self.kernel(X, diag=True)
        return (diagonal - A.square().sum(-2)).clamp_min(0.0)

    def joint(self, X: Float[Tensor, "N D"]) -> MultivariateNormal:
        """q(f(x_1), …, f(x_N)), batched over outputs: [P] Gaussians of dimension N."""
        A = self.whiten(X)
        SA = self.q.scale_tril.mT @ A  # [P, M, N]
        prior: Tensor = self.kernel(X).to_dense()
        return MultivariateNormal(self._with_prior_mean(A.T @ self.q.mean, X).T, prior - A.T @ A + SA.mT @ SA)

    def output_weights(self) -> Float64[Tensor, "M P"]:
        """V = L⁻ᵀ m: the layer's mean is the network layer Kufᵀ V = Vᵀ σ̃(W x̃)."""
        return self.inverse_cholesky().mT @ self.q.mean.double()

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(u) ‖ p(u)), summed over outputs."""
        return self.q.kl()

    def _whiten(self, X: Float[Tensor, "N D"], R: Float64[Tensor, "M M"]) -> Float[Tensor, "M N"]:
        # In float64 for float32 inputs too: where Kuu is near singular, L⁻¹ would magnify the round-off of Kuf.
        return (R @ self.features.cross(self.kernel, X.double())).to(X)

    def _with_prior_mean(self, mean: Float[Tensor, "N P"], X: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
        return mean + X if self.prior_mean == "identity" else mean
