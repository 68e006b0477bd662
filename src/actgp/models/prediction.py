"""What a model predicts: a mixture of Gaussian latents, seen through the likelihood.

With component s = 1, …, S of the latent (one for a single layer, one for each sampled path of a deep model), by the
law of total variance

    mean      = E[E[y | f]]
    aleatoric = E[Var[y | f]]          noise, which more data does not reduce
    epistemic = Var[E[y | f]]          not knowing f
    variance  = aleatoric + epistemic
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from gpytorch.likelihoods import Likelihood
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.autocast import full_precision
from actgp.likelihoods import Latent, LikelihoodAdapter, Moments, adapter_of, targets


@dataclass(frozen=True)
class Prediction:
    """The predictive distribution at N inputs. Tensors are [N] for one output, [N, P] for several.

    For class labels the moments are those of the one-hot label: the mean is the class probabilities. For labels with an
    order, which an ordinal likelihood makes of one latent function, they are those of the label as a number, 0 … C − 1.

    Attributes:
        component_means: Means of f for each mixture component, [S, N, P].
        component_variances: Variances of f, likewise.
        likelihood: p(y | f).
        relative_noise: Where the noise varies, its relative size in each component, [S, N, 1]; None if it does not.

    Example:
        >>> import actgp, torch
        >>> model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=10)
        >>> prediction = model.predict(torch.randn(7, 2))
        >>> lower, upper = prediction.interval(0.9)
        >>> torch.allclose(prediction.variance, prediction.aleatoric + prediction.epistemic)
        True
    """

    component_means: Float[Tensor, "S N P"]
    component_variances: Float[Tensor, "S N P"]
    likelihood: Likelihood
    relative_noise: Float[Tensor, "S N 1"] | None = None

    def __post_init__(self) -> None:
        # A prediction stays what it was when the model is trained on: it keeps the likelihood as it is now.
        own = copy.deepcopy(self.likelihood).requires_grad_(False).to(self.component_means.dtype)
        object.__setattr__(self, "likelihood", own)

    @property
    def latent_mean(self) -> Tensor:
        """E[f]."""
        return checks.squeezed(self.component_means.mean(0))

    @property
    def latent_variance(self) -> Tensor:
        """Var[f]."""
        spread = self.component_means.var(0, correction=0)
        return checks.squeezed(self.component_variances.mean(0) + spread)

    @property
    def mean(self) -> Tensor:
        """E[y]."""
        return checks.squeezed(self._moments.mean)

    @property
    def aleatoric(self) -> Tensor:
        """E[Var[y | f]]."""
        return checks.squeezed(self._moments.aleatoric)

    @property
    def epistemic(self) -> Tensor:
        """Var[E[y | f]]."""
        return checks.squeezed(self._moments.epistemic)

    @property
    def variance(self) -> Tensor:
        """Var[y] = aleatoric + epistemic."""
        return self.aleatoric + self.epistemic

    @cached_property
    @full_precision
    def probabilities(self) -> Float[Tensor, "N *P C"]:
        """Class probabilities, for Bernoulli (two columns), softmax and ordinal likelihoods.

        For several outputs, each of which has a label, [N, P, C].
        """
        return self._adapter.probabilities(self._moments.mean, self._latent)

    @full_precision
    def log_prob(self, y: Tensor) -> Float[Tensor, " N"]:
        """The logarithm of p(y_i) under the mixture, summed over outputs."""
        _, N, P = self.component_means.shape
        y = targets(self.likelihood, y, N, P, self.component_means.dtype)
        return self._adapter.mixture_log_prob(y, self._latent)

    @full_precision
    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """The central interval that holds y with probability `level`: its lower and upper ends.

        Exact for Gaussian noise, with outliers or without, and for labels with an order, of which at least `level` lies
        between the ends, both included; from 2,000 draws of y, always the same, for others.
        """
        if not 0.0 < checks.real(level, "level", example=0.95) < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {level}; pass e.g. 0.95")
        lower, upper = self.quantiles([(1 - level) / 2, (1 + level) / 2])
        return lower, upper

    @full_precision
    def quantiles(self, levels: Iterable[float]) -> Float[Tensor, "Q N *P"]:
        """The values that y stays below with each of these probabilities, each output by itself; as `interval`."""
        found = self._adapter.quantiles(self.component_means.new_tensor(checks.levels(levels)), self._latent)
        return checks.squeezed(found)

    def normal_components(self) -> tuple[Float[Tensor, " K"], Float[Tensor, "K N P"], Float[Tensor, "K N P"]]:
        """For Gaussian noise, each output of y by itself as a mixture of normals: weights, means, variances."""
        return self._adapter.normal_components(self._latent)

    @cached_property
    @full_precision
    def _moments(self) -> Moments:
        return self._adapter.moments(self._latent)

    @property
    def _adapter(self) -> LikelihoodAdapter:
        return adapter_of(self.likelihood)

    @property
    def _latent(self) -> Latent:
        return Latent(self.component_means, self.component_variances, self.relative_noise)
