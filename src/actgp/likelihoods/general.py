"""Any likelihood of one y for each latent function: all that it need say is p(y | f).

Integrals over f are found by quadrature where the likelihood says, by deriving from `OneDimensionalLikelihood`, that it
has a single latent function for each y, and by sampling where it does not. Whether y is a number or one of C ordered
labels, 0 to C − 1, is read off p(y | f) itself: a `Categorical` for each latent function is of labels.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from gpytorch.likelihoods import BetaLikelihood, Likelihood
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Distribution

from actgp.gpytorch_names import COUNT_LIKELIHOODS, OneDimensionalLikelihood
from actgp.likelihoods.adapter import Latent, LikelihoodAdapter, Moments, adapter_of, no_probabilities
from actgp.likelihoods.checked import columns, some
from actgp.likelihoods.numerics import (
    QUANTILE_SAMPLES,
    SEED,
    Nodes,
    expectation_by_quadrature,
    expectation_by_sampling,
    fisher_by_sampling,
    grid_nodes,
    in_chunks,
    is_ordered,
    log_prob_at_nodes,
    marginal_by_quadrature,
    marginal_by_sampling,
    moments_at_nodes,
    sample_latent,
    sobol_nodes,
)
from actgp.sampling import seeded


@dataclass(frozen=True)
class GeneralAdapter(LikelihoodAdapter):
    """Numbers, or ordered labels 0, …, C − 1, in every output.

    Attributes:
        check: Refuses numbers that have no density.
    """

    check: Callable[[Float[Tensor, "N P"]], None] | None = None

    @abstractmethod
    def nodes(self, latent: Latent) -> Nodes:
        """Points f and log-weights that integrate over each component."""

    def num_labels(self, num_outputs: int) -> int | None:
        """C, for ordered labels; None for numbers."""
        given = conditional_at_zero(self, 1, num_outputs)
        return given.probs.shape[-1] if is_ordered(given, 2) else None  # type: ignore[attr-defined]

    def check_supported(self, num_outputs: int | None, input_dim: int | None) -> None:
        check_shapes(self, num_outputs)

    def outcomes(self, y: Tensor, num_outputs: int, dtype: torch.dtype) -> Tensor:
        values = columns(y, num_outputs, dtype)
        if self.check is not None:
            self.check(values)
        C = self.num_labels(num_outputs)
        if C is not None and not ((values >= 0) & (values < C) & (values == values.round())).all():
            raise ValueError(
                f"y must hold ordered labels from 0 to {C - 1}, got {some(values)}; relabel, or build the likelihood "
                "with as many labels as there are"
            )
        return values

    fisher_factors = fisher_by_sampling

    def moments(self, latent: Latent) -> Moments:
        return moments_at_nodes(self, self.nodes, latent, self.num_labels(latent.mean.shape[-1]) or 1)

    def mixture_log_prob(self, y: Tensor, latent: Latent) -> Float[Tensor, " N"]:
        return log_prob_at_nodes(self, self.nodes, y, latent, self.num_labels(latent.mean.shape[-1]) or 1)

    def quantiles(self, levels: Float[Tensor, " Q"], latent: Latent) -> Float[Tensor, "Q N P"]:
        """Of labels from their probabilities; of numbers from at least 2,000 draws, always the same."""
        C = self.num_labels(latent.mean.shape[-1])
        if C is not None:
            below = self._label_probabilities(latent, C).cumsum(-1) < levels.reshape(-1, 1, 1, 1)  # [Q, N, P, C]
            return below.sum(-1).clamp_max(C - 1).to(levels.dtype)  # p may add up to a little less than one
        parts = []
        for part, *_ in in_chunks(latent):
            with seeded(SEED, part.mean.device):  # torch's distributions draw from the global generator
                f = sample_latent(part, -(-QUANTILE_SAMPLES // len(part.mean)), None)
                y: Tensor = self.conditional(f).sample()
            parts.append(y.flatten(0, 1).quantile(levels, dim=0))
        return torch.cat(parts, dim=1)

    def probabilities(self, expected: Float[Tensor, "N P"], latent: Latent) -> Float[Tensor, "N *P C"]:
        C = self.num_labels(latent.mean.shape[-1])
        if C is None:
            raise no_probabilities(self.likelihood)
        p = self._label_probabilities(latent, C)
        return p.squeeze(1) if p.shape[1] == 1 else p

    def _label_probabilities(self, latent: Latent, C: int) -> Float[Tensor, "N P C"]:
        parts = []
        for part, *_ in in_chunks(latent, numbers=C):
            f, log_weights = self.nodes(part)
            p: Tensor = self.conditional(f).probs  # type: ignore[attr-defined]  # [Q, S, n, P, C]
            parts.append(torch.tensordot(log_weights.flatten().exp(), p.mean(1), 1))
        return torch.cat(parts)


@adapter_of.register(OneDimensionalLikelihood)
@final
class QuadratureAdapter(GeneralAdapter):
    """One latent function for each y: integrals over a single variable."""

    expected_log_prob = expectation_by_quadrature
    log_marginal = marginal_by_quadrature
    nodes = staticmethod(grid_nodes)


@adapter_of.register(Likelihood)
@final
class SamplingAdapter(GeneralAdapter):
    """Nothing is known of how y depends on the latent functions."""

    expected_log_prob = expectation_by_sampling
    log_marginal = marginal_by_sampling
    nodes = staticmethod(sobol_nodes)


def counts(values: Float[Tensor, "N P"]) -> None:
    """Poisson and negative binomial likelihoods are of whole numbers from zero on."""
    if not ((values >= 0) & (values == values.round())).all():
        raise ValueError(f"y must hold counts 0, 1, 2, …, got {some(values)}; round them, or use another likelihood")


def between_0_and_1(values: Float[Tensor, "N P"]) -> None:
    """A beta likelihood is of proportions."""
    if not ((values > 0) & (values < 1)).all():
        raise ValueError(
            f"y must lie between 0 and 1, ends not included, got {some(values)}; scale it, or use another likelihood"
        )


for _counts in COUNT_LIKELIHOODS.values():
    adapter_of.register(_counts, partial(QuadratureAdapter, check=counts))
adapter_of.register(BetaLikelihood, partial(QuadratureAdapter, check=between_0_and_1))


def check_shapes(adapter: LikelihoodAdapter, num_outputs: int | None) -> None:
    """Refuses a likelihood that does not give one y for each latent function, such as one with a batch shape."""
    if num_outputs is None:
        return
    for N in (2, 3):  # a batch shape may fit one of them by chance
        expected = [N, num_outputs]
        try:
            got = str(list(conditional_at_zero(adapter, N, num_outputs).batch_shape))
        except Exception as error:
            got = f"{type(error).__name__}: {error}"
        if got != str(expected):
            raise ValueError(
                f"{type(adapter.likelihood).__name__} must give a distribution of shape {expected} for latent "
                f"functions of shape {expected}, one y for each, got {got}; leave out batch_shape, use a "
                "SoftmaxLikelihood for classes, or build one model for each likelihood"
            )


@torch.no_grad()
def conditional_at_zero(adapter: LikelihoodAdapter, num_rows: int, num_outputs: int) -> Distribution:
    """p(y | f) at f = 0, [N, P], from which one sees whether y is a number or a label, and its shape."""
    tensors = (*adapter.likelihood.parameters(), *adapter.likelihood.buffers())
    own = [tensor for tensor in tensors if tensor.is_floating_point()]
    zeros = torch.zeros(num_rows, num_outputs)
    return adapter.conditional(zeros.to(own[0]) if own else zeros)
