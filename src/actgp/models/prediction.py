"""What a model predicts: a mixture of Gaussian latents, seen through the likelihood.

With component s = 1, …, S of the latent (one for a single layer, one for each sampled path of a deep model), by the
law of total variance

    mean      = E[E[y | f]]
    aleatoric = E[Var[y | f]]          noise, which more data does not reduce
    epistemic = Var[E[y | f]]          not knowing f
    variance  = aleatoric + epistemic
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log

import torch
from gpytorch.likelihoods import BernoulliLikelihood, GaussianLikelihood, Likelihood, SoftmaxLikelihood
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.autocast import full_precision
from actgp.likelihoods import (
    conditional,
    label_quantile,
    log_marginal,
    noise_mixture,
    noise_variance,
    num_ordered_labels,
    targets,
)
from actgp.models.integration import draws, integrated_moments, label_probabilities, nodes

INTERVAL_SAMPLES = 2_000
BISECTIONS = 60
CHUNK = 2**24  # numbers in the largest tensor


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
        return squeeze_outputs(self.component_means.mean(0))

    @property
    def latent_variance(self) -> Tensor:
        """Var[f]."""
        spread = self.component_means.var(0, correction=0)
        return squeeze_outputs(self.component_variances.mean(0) + spread)

    @property
    def mean(self) -> Tensor:
        """E[y]."""
        return squeeze_outputs(self._moments[0])

    @property
    def aleatoric(self) -> Tensor:
        """E[Var[y | f]]."""
        return squeeze_outputs(self._moments[1])

    @property
    def epistemic(self) -> Tensor:
        """Var[E[y | f]]."""
        return squeeze_outputs(self._moments[2])

    @property
    def variance(self) -> Tensor:
        """Var[y] = aleatoric + epistemic."""
        return self.aleatoric + self.epistemic

    @property
    def probabilities(self) -> Float[Tensor, "N *P C"]:
        """Class probabilities, for Bernoulli (two columns), softmax and ordinal likelihoods.

        For several outputs, each of which has a label, [N, P, C].
        """
        if isinstance(self.likelihood, SoftmaxLikelihood):
            return self._moments[0]
        if isinstance(self.likelihood, BernoulliLikelihood):
            return torch.stack([1 - self.mean, self.mean], dim=-1)
        if self._num_labels is not None:
            p = self._label_probabilities
            return p.squeeze(1) if p.shape[1] == 1 else p
        raise ValueError(
            f"probabilities need a likelihood of classes, got {type(self.likelihood).__name__}; use mean and variance"
        )

    @full_precision
    def log_prob(self, y: Tensor) -> Float[Tensor, " N"]:
        """The logarithm of p(y_i) under the mixture, summed over outputs."""
        S, N, P = self.component_means.shape
        y = targets(self.likelihood, y, N, P, self.component_means.dtype)
        if isinstance(self.likelihood, GaussianLikelihood | BernoulliLikelihood):  # in closed form
            latent = (self.component_means, self.component_variances, self.relative_noise)
            components = log_marginal(self.likelihood, y, *latent)  # [S, N]
            return components.logsumexp(0) - log(S)
        parts = []
        for (mean, variance), labels in zip(self._in_chunks(), y.split(self._rows), strict=True):
            f, log_weights = nodes(self.likelihood, mean, variance)  # [Q, S, n, P], [Q]
            log_probs: Tensor = conditional(self.likelihood, f).log_prob(labels)
            if y.ndim == 1:  # labels: one probability a row
                parts.append((log_probs + log_weights[:, None, None]).logsumexp((0, 1)))
            else:  # outputs are independent within a component: average over nodes first, then multiply
                components = (log_probs + log_weights[:, None, None, None]).logsumexp(0).sum(-1)  # [S, n]
                parts.append(components.logsumexp(0))
        return torch.cat(parts) - log(S)

    @full_precision
    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """The central interval that holds y with probability `level`: its lower and upper ends.

        Exact for Gaussian noise, with outliers or without, and for labels with an order, of which at least `level` lies
        between the ends, both included; from 2,000 draws of y, always the same, for others.
        """
        if not 0.0 < checks.real(level, "level", example=0.95) < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {level}; pass e.g. 0.95")
        if isinstance(self.likelihood, SoftmaxLikelihood | BernoulliLikelihood):
            raise ValueError("class labels have no interval, got a likelihood of classes; use probabilities")
        ends = self.component_means.new_tensor([(1 - level) / 2, (1 + level) / 2])
        if isinstance(self.likelihood, GaussianLikelihood):
            lower, upper = (_mixture_quantile(*self.normal_components(), p) for p in ends)
        elif self._num_labels is not None:
            lower, upper = (label_quantile(self._label_probabilities, p) for p in ends)
        else:
            samples = (draws(self.likelihood, *part, INTERVAL_SAMPLES) for part in self._in_chunks())
            lower, upper = torch.cat([y.quantile(ends, dim=0) for y in samples], dim=1)
        return squeeze_outputs(lower), squeeze_outputs(upper)

    def normal_components(self) -> tuple[Float[Tensor, " K"], Float[Tensor, "K N P"], Float[Tensor, "K N P"]]:
        """For Gaussian noise, each output of y by itself as a mixture of normals: weights, means, variances."""
        if not isinstance(self.likelihood, GaussianLikelihood):
            raise ValueError(
                f"a mixture of normals needs Gaussian noise, got {type(self.likelihood).__name__}; use mean, variance "
                "and interval"
            )
        S = len(self.component_means)
        log_weights, noises = noise_mixture(self.likelihood, self.relative_noise)  # [C]; [C], or [S, N, C]
        return (
            log_weights.exp().repeat_interleave(S) / S,
            self.component_means.repeat(len(log_weights), 1, 1),
            torch.cat([self.component_variances + noise.unsqueeze(-1) for noise in noises.unbind(-1)]),
        )

    @cached_property
    @full_precision
    def _moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """E[y], aleatoric and epistemic variance, each [N, P]."""
        if isinstance(self.likelihood, GaussianLikelihood):
            mean = self.component_means.mean(0)
            spread = self.component_means.var(0, correction=0)
            noise = noise_variance(self.likelihood, self.relative_noise).unsqueeze(-1)  # [1], or [S, N, 1]
            aleatoric = noise.expand_as(self.component_means).mean(0)
            return mean, aleatoric, self.component_variances.mean(0) + spread
        parts = [integrated_moments(self.likelihood, *part) for part in self._in_chunks()]
        mean, aleatoric, epistemic = (torch.cat(values) for values in zip(*parts, strict=True))
        return mean, aleatoric, epistemic

    @cached_property
    def _num_labels(self) -> int | None:
        """C, for labels with an order."""
        return num_ordered_labels(self.likelihood, self.component_means.shape[-1])

    @cached_property
    @full_precision
    def _label_probabilities(self) -> Float[Tensor, "N P C"]:
        return torch.cat([label_probabilities(self.likelihood, *part) for part in self._in_chunks()])

    @property
    def _rows(self) -> int:
        """How many inputs at a time keep the nodes of all components within CHUNK numbers."""
        S, _, P = self.component_means.shape
        return max(1, CHUNK // (INTERVAL_SAMPLES * S * P * (self._num_labels or 1)))

    def _in_chunks(self) -> Iterator[tuple[Float[Tensor, "S n P"], Float[Tensor, "S n P"]]]:
        parts = (values.split(self._rows, dim=1) for values in (self.component_means, self.component_variances))
        return zip(*parts, strict=True)


def _mixture_quantile(
    weights: Float[Tensor, " K"], mean: Float[Tensor, "K N P"], variance: Float[Tensor, "K N P"], p: Tensor
) -> Float[Tensor, "N P"]:
    """The p-quantile of a mixture of Gaussians, by bisection between the components' own quantiles."""
    sd, weights = variance.sqrt(), weights.reshape(-1, 1, 1)
    quantiles = mean + sd * torch.special.ndtri(p)
    low, high = quantiles.amin(0), quantiles.amax(0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        below = (weights * torch.special.ndtr((middle - mean) / sd)).sum(0) < p
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


def squeeze_outputs(values: Float[Tensor, "N P"]) -> Tensor:
    """[N] for one output, [N, P] for several: the shape of everything that models return."""
    return values.squeeze(-1) if values.shape[-1] == 1 else values
