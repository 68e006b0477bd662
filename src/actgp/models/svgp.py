"""Sparse variational GP: one GP layer and a likelihood, trained on minibatches (Hensman et al., 2013)."""

import torch
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import Likelihood, SoftmaxLikelihood
from jaxtyping import Float
from torch import Tensor, nn

from actgp import checks
from actgp.features import InducingFeatures
from actgp.layers import GPLayer, Marginals
from actgp.likelihoods import expected_log_prob, supported, targets
from actgp.models.prediction import Prediction


class SVGP(nn.Module):
    """f ~ GP(0, k) for each output, y | f by a likelihood, q(u) whitened.

    Args:
        kernel: The prior's kernel.
        features: The inducing features.
        likelihood: A gpytorch likelihood of one latent function for each output, or `SoftmaxLikelihood`.
        num_outputs: P, the number of latent functions; for a softmax likelihood its number of features.

    Example:
        >>> import actgp, gpytorch
        >>> kernel = actgp.ArcCosine(input_dim=2)
        >>> features = actgp.ActivatedFeatures(input_dim=2, num_inducing=50, activation="softplus")
        >>> model = actgp.SVGP(kernel, features, gpytorch.likelihoods.BernoulliLikelihood())
    """

    def __init__(
        self, kernel: Kernel, features: InducingFeatures, likelihood: Likelihood, num_outputs: int | None = None
    ) -> None:
        super().__init__()
        supported(likelihood)
        latent = likelihood.num_features if isinstance(likelihood, SoftmaxLikelihood) else 1
        P = latent if num_outputs is None else checks.integer(num_outputs, "num_outputs", minimum=1)
        if isinstance(likelihood, SoftmaxLikelihood) and latent != P:
            raise ValueError(
                f"num_outputs must be the softmax likelihood's number of features {latent}, got {P}; leave it out"
            )
        self.layer = GPLayer(kernel, features, P)
        self.likelihood = likelihood

    @property
    def num_outputs(self) -> int:
        """P."""
        return self.layer.num_outputs

    def check_inputs(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """Returns X if it has the model's columns and precision."""
        return checks.precision(checks.inputs(X, self.layer.input_dim), self.parameters())

    def forward(self, X: Float[Tensor, "N D"]) -> Marginals:
        """Means and variances of q(f(x_i)), differentiable in everything."""
        return self.layer(X)

    def elbo(
        self, X: Float[Tensor, "B D"], y: Tensor, num_data: int, *, generator: torch.Generator | None = None
    ) -> Float[Tensor, ""]:
        """Σ_i E[log p(y_i | f_i)] − KL, for the whole data set of `num_data` rows, from a minibatch of it.

        Args:
            X: A minibatch of inputs.
            y: Its targets: [B], or [B, P].
            num_data: N, the rows of the whole data set; the estimate is unbiased for it.
            generator: Source of randomness for likelihoods whose expectation is sampled.
        """
        self.check_inputs(X)
        num_data = checks.integer(num_data, "num_data", minimum=len(X))
        y = targets(self.likelihood, y, len(X), self.num_outputs, X.dtype)
        mean, variance = self.layer(X)
        fit = expected_log_prob(self.likelihood, y, mean, variance, generator=generator)  # [B]
        return num_data / len(X) * fit.sum() - self.layer.kl()

    @torch.no_grad()
    def predict(self, X: Float[Tensor, "N D"]) -> Prediction:
        """The predictive distribution at each input."""
        mean, variance = self.layer(self.check_inputs(X))
        return Prediction(mean.unsqueeze(0), variance.unsqueeze(0), self.likelihood)
