"""Two classes, by the probit, p(y = 1 | f) = Φ(f), or by the logit, p(y = 1 | f) = σ(f) = 1 / (1 + exp(−f)).

∫ Φ(f) N(f; μ, v) df = Φ(μ / √(1 + v)),     1 − Φ(x) = Φ(−x),     1 − σ(x) = σ(−x)

The integral of σ has no closed form, and is found by quadrature. The logit is what networks of one output are trained
with: where f is the network's output and has no variance, p is the network's.
"""

from abc import abstractmethod
from math import log, pi
from typing import final

import torch
from gpytorch.likelihoods import BernoulliLikelihood
from jaxtyping import Float
from torch import Generator, Tensor
from torch.distributions import Bernoulli

from actgp.autocast import full_precision
from actgp.gpytorch_names import OneDimensionalLikelihood
from actgp.likelihoods.adapter import Latent, LikelihoodAdapter, Moments, adapter_of
from actgp.likelihoods.checked import columns, some
from actgp.likelihoods.general import check_shapes
from actgp.likelihoods.numerics import (
    expectation_by_quadrature,
    grid_nodes,
    in_chunks,
    joined,
    marginal_by_quadrature,
)
from actgp.persistence import savable


class BinaryAdapter(LikelihoodAdapter):
    """One of two labels for each latent function, with a link that is odd about ½: p(y = 0 | f) = p(y = 1 | −f)."""

    has_temperature = True

    @abstractmethod
    def log_link(self, f: Tensor) -> Tensor:
        """Log p(y = 1 | f)."""

    @abstractmethod
    def log_slope(self, f: Tensor) -> Tensor:
        """Log of the derivative of p(y = 1 | f)."""

    @abstractmethod
    def expected_link(self, latent: Latent) -> Float[Tensor, "S N P"]:
        """E[p(y = 1 | f)] in each component."""

    def check_supported(self, num_outputs: int | None, input_dim: int | None) -> None:
        check_shapes(self, num_outputs)

    def outcomes(self, y: Tensor, num_outputs: int, dtype: torch.dtype) -> Tensor:
        values = columns(y, num_outputs, dtype)
        if not ((values == 0) | (values == 1)).all():
            raise ValueError(f"y must hold the labels 0 and 1, got {some(values)}; map the two classes to 0 and 1")
        return values

    expected_log_prob = expectation_by_quadrature

    @full_precision
    def fisher_factors(self, f: Float[Tensor, "N P"]) -> Float[Tensor, "P N P"]:
        """r_p = p′/√(p(1−p)) e_p, from logarithms, where p itself would underflow."""
        f = f.detach()
        roots = self.log_slope(f) - 0.5 * (self.log_link(f) + self.log_link(-f))
        return torch.diag_embed(roots.exp()).movedim(1, 0)

    def moments(self, latent: Latent) -> Moments:
        """E[y] = p, and Var[p(y = 1 | f)] by quadrature; both parts of the variance add up to p (1 − p)."""
        parts = []
        for part, *_ in in_chunks(latent):
            f, log_weights = grid_nodes(part)
            p = self.expected_link(part).mean(0)
            squares = (self.log_link(f).exp() - p).square()
            epistemic = (log_weights.exp() / len(part.mean) * squares).sum((0, 1))
            parts.append(Moments(p, p * (1 - p) - epistemic, epistemic))
        return joined(parts)

    def probabilities(self, expected: Float[Tensor, "N P"], latent: Latent) -> Float[Tensor, "N *P 2"]:
        p = expected.squeeze(-1) if expected.shape[-1] == 1 else expected
        return torch.stack([1 - p, p], dim=-1)


@adapter_of.register(BernoulliLikelihood)
@final
class BernoulliAdapter(BinaryAdapter):
    """p(y | f) = Φ((2y − 1) f)."""

    def log_link(self, f: Tensor) -> Tensor:
        return torch.special.log_ndtr(f)

    def log_slope(self, f: Tensor) -> Tensor:
        return -0.5 * f.square() - 0.5 * log(2 * pi)

    def expected_link(self, latent: Latent) -> Float[Tensor, "S N P"]:
        return torch.special.ndtr(latent.mean / (1 + latent.variance).sqrt())

    @full_precision
    def log_marginal(self, y: Tensor, latent: Latent, generator: Generator | None = None) -> Tensor:
        """In closed form."""
        return self.log_link((2 * y - 1) * latent.mean / (1 + latent.variance).sqrt()).sum(-1)


@savable
class BernoulliLogitLikelihood(OneDimensionalLikelihood):
    """p(y = 1 | f) = σ(f): what a network with one logit is trained with, by binary cross-entropy.

    gpytorch's `BernoulliLikelihood` is a probit.

    Example:
        >>> import actgp, torch
        >>> net = torch.nn.Linear(3, 1)
        >>> model, _ = actgp.convert(net, torch.randn(50, 3), likelihood=actgp.BernoulliLogitLikelihood())
    """

    def forward(self, function_samples: Tensor, *args: object, **kwargs: object) -> Bernoulli:
        return Bernoulli(logits=function_samples)

    def config(self) -> dict[str, object]:
        """The arguments of its constructor, for files (`persistence`)."""
        return {}


@adapter_of.register(BernoulliLogitLikelihood)
@final
class BernoulliLogitAdapter(BinaryAdapter):
    """p(y | f) = σ((2y − 1) f)."""

    log_marginal = marginal_by_quadrature

    def log_link(self, f: Tensor) -> Tensor:
        return torch.nn.functional.logsigmoid(f)

    def log_slope(self, f: Tensor) -> Tensor:
        return self.log_link(f) + self.log_link(-f)

    def expected_link(self, latent: Latent) -> Float[Tensor, "S N P"]:
        f, log_weights = grid_nodes(latent)
        return (log_weights.exp() * f.sigmoid()).sum(0)
