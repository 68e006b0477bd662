"""What this library asks of a likelihood p(y | f), and where it finds the answers.

Models, predictions and training know no likelihood by name: they ask `adapter_of(likelihood)`. There is an adapter for
each class of likelihoods, chosen by the nearest of its base classes that has one, and one file for each adapter.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import singledispatch
from math import log
from typing import ClassVar, NamedTuple

import torch
from gpytorch.likelihoods import Likelihood
from jaxtyping import Float
from torch import Generator, Tensor
from torch.distributions import Distribution

from actgp.autocast import full_precision


class NoiseParameters(NamedTuple):
    """The parameters of Gaussian noise, before constraints; None for each that a likelihood does not have.

    Attributes:
        noise: Of σ².
        outlier_noise: Of ω², what outliers have in addition.
        slopes: c, by which the logarithm of σ² follows what the last layer is given.
    """

    noise: Tensor | None = None
    outlier_noise: Tensor | None = None
    slopes: Tensor | None = None


class Latent(NamedTuple):
    """Marginals of P latent functions at N rows, normal and independent: f_ip ~ N(mean_ip, variance_ip).

    Attributes:
        mean: For each of S components, such as the paths through the hidden layers of a deep model.
        variance: Likewise.
        relative: Where the noise varies, its relative size in each component; None if it does not.
    """

    mean: Float[Tensor, "*S N P"]
    variance: Float[Tensor, "*S N P"]
    relative: Float[Tensor, "*S N 1"] | None = None


class Moments(NamedTuple):
    """E[y], E[Var[y | f]] and Var[E[y | f]]; of the one-hot label for classes without an order."""

    mean: Float[Tensor, "N P"]
    aleatoric: Float[Tensor, "N P"]
    epistemic: Float[Tensor, "N P"]


@dataclass(frozen=True)
class LikelihoodAdapter(ABC):
    """A likelihood as models, predictions and training see it: p(y | f), y of P outputs or one label, f of P functions.

    Targets y are what `outcomes` has made of a user's.

    Attributes:
        likelihood: The likelihood, which keeps its parameters: an adapter has none.
        squared_error: Whether a network under it is trained on its squared error, which does not depend on parameters
            of the likelihood; else on −log p(y | f).
        has_temperature: Whether a temperature, by which labels become less certain, may be fitted to held-out rows.
    """

    likelihood: Likelihood

    squared_error: ClassVar[bool] = False
    has_temperature: ClassVar[bool] = False

    # What it can be used for

    @abstractmethod
    def check_supported(self, num_outputs: int | None, input_dim: int | None) -> None:
        """Refuses a likelihood that does not fit a model, as far as that is known.

        Args:
            num_outputs: P, the number of latent functions, if known.
            input_dim: How many inputs the last layer has, if known.
        """

    @property
    def num_latent(self) -> int | None:
        """How many latent functions it needs; None if any number will do, one for each output."""
        return None

    @abstractmethod
    def outcomes(self, y: Tensor, num_outputs: int, dtype: torch.dtype) -> Tensor:
        """Finite numbers y as [N, P] values or [N] labels; refuses those that the likelihood gives no density."""

    # p(y | f), and what training needs of it

    def conditional(self, f: Float[Tensor, "*batch N P"]) -> Distribution:
        """p(y | f), with batch shape [*batch, N] for one label and [*batch, N, P] for values."""
        given: Distribution = self.likelihood(f)
        return given

    @full_precision
    def conditional_log_prob(self, f: Float[Tensor, "*batch N P"], y: Tensor) -> Float[Tensor, "*batch N"]:
        """Log p(y_i | f_i), summed over outputs."""
        log_probs: Tensor = self.conditional(f).log_prob(y)
        return log_probs.sum(-1) if y.ndim == 2 else log_probs

    @abstractmethod
    def expected_log_prob(self, y: Tensor, latent: Latent, generator: Generator | None = None) -> Float[Tensor, "*S N"]:
        """E[log p(y_i | f_i)], summed over outputs, or a bound of it from below; differentiable.

        Args:
            y: Targets.
            latent: Marginals of f.
            generator: Source of randomness where sampling is needed.
        """

    @abstractmethod
    def log_marginal(self, y: Tensor, latent: Latent, generator: Generator | None = None) -> Float[Tensor, "*S N"]:
        """Log ∫ p(y_i | f_i) q(f_i) df_i, summed over outputs; differentiable, too."""

    @abstractmethod
    def fisher_factors(self, f: Float[Tensor, "N P"]) -> Float[Tensor, "K N P"]:
        """r_1, …, r_K at each f_i, with Σ_k r_k r_kᵀ = E_y[s sᵀ], the Fisher information, s = ∂ log p(y | f) / ∂f.

        In place of −∂² log p/∂f² it never is negative, and it is the same for Gaussian noise and for canonical links.
        """

    def noise_parameters(self) -> NoiseParameters:
        """Those of Gaussian noise, which training may set."""
        return NoiseParameters()

    def noise_variance(self, relative: Float[Tensor, "*rows 1"] | None = None) -> Float[Tensor, "*rows"] | None:
        """Var[y | f] of Gaussian noise, a single number if it is the same everywhere; None for other likelihoods."""
        return None

    def relative_noise(self, h: Float[Tensor, "*batch H"]) -> Float[Tensor, "*batch 1"] | None:
        """How noise varies with what the last layer is given; None if it does not, or there is none."""
        return None

    # Predictions: mixtures of S components with equal weights

    @abstractmethod
    def moments(self, latent: Latent) -> Moments:
        """E[y], E[Var[y | f]] and Var[E[y | f]]."""

    def mixture_log_prob(self, y: Tensor, latent: Latent) -> Float[Tensor, " N"]:
        """Log (1/S) Σ_s p(y_i | component s); from `log_marginal`, unless that is too rough for predictions."""
        return self.log_marginal(y, latent).logsumexp(0) - log(len(latent.mean))

    def quantiles(self, levels: Float[Tensor, " Q"], latent: Latent) -> Float[Tensor, "Q N P"]:
        """The smallest values with P(y ≤ value) ≥ level, for each output by itself; classes have none."""
        raise ValueError("class labels have no interval, got a likelihood of classes; use probabilities")

    def probabilities(self, expected: Float[Tensor, "N P"], latent: Latent) -> Float[Tensor, "N *P C"]:
        """The probability of each label, given E[y], which `moments` has found; numbers have none."""
        raise no_probabilities(self.likelihood)

    def normal_components(
        self, latent: Latent
    ) -> tuple[Float[Tensor, " K"], Float[Tensor, "K N P"], Float[Tensor, "K N P"]]:
        """For Gaussian noise, each output of y by itself as a mixture of normals: weights, means, variances."""
        raise ValueError(
            f"a mixture of normals needs Gaussian noise, got {type(self.likelihood).__name__}; use mean, variance "
            "and interval"
        )


@singledispatch
def adapter_of(likelihood: object) -> LikelihoodAdapter:
    """The adapter of a likelihood: the one registered for its class, or for the nearest of its base classes."""
    raise TypeError(
        f"likelihood must be a gpytorch likelihood, got {type(likelihood).__name__}; "
        "pass e.g. gpytorch.likelihoods.GaussianLikelihood()"
    )


def no_probabilities(likelihood: Likelihood) -> ValueError:
    """The error for probabilities of what is no label."""
    return ValueError(
        f"probabilities need a likelihood of classes, got {type(likelihood).__name__}; use mean and variance"
    )
