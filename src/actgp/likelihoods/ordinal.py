"""Ordered labels: y = 0, …, C − 1, with probabilities p that follow from one latent function, for each output.

    E[y | f] = Σ_k k p_k,     Var[y | f] = Σ_k p_k (k − E[y | f])²

Which likelihoods are of this kind is read off what they give, a `Categorical` for each latent function, so that those
of users are, too.
"""

import torch
from gpytorch.likelihoods import (
    BernoulliLikelihood,
    BetaLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    Likelihood,
    NegativeBinomialLikelihood,
    SoftmaxLikelihood,
    StudentTLikelihood,
)
from gpytorch.likelihoods.poisson_likelihood import PoissonLikelihood
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Categorical, Distribution

from actgp.likelihoods.expectation import conditional

OF_OTHERS = (
    *(BernoulliLikelihood, BetaLikelihood, GaussianLikelihood, LaplaceLikelihood, NegativeBinomialLikelihood),
    *(PoissonLikelihood, SoftmaxLikelihood, StudentTLikelihood),
)


def num_ordered_labels(likelihood: Likelihood, num_outputs: int) -> int | None:
    """C, for a likelihood of ordered labels; None for others."""
    if isinstance(likelihood, OF_OTHERS):
        return None
    given = conditional_at_zero(likelihood, 1, num_outputs)
    return given.probs.shape[-1] if ordered(given, 2) else None  # type: ignore[attr-defined]


def ordered(given: Distribution, num_dims: int) -> bool:
    """Whether p(y | f), f of so many dimensions, is of one label for each latent function, not one for each row."""
    return isinstance(given, Categorical) and len(given.batch_shape) == num_dims


@torch.no_grad()
def conditional_at_zero(likelihood: Likelihood, num_rows: int, num_outputs: int) -> Distribution:
    """p(y | f) at f = 0, [N, P], by which one sees what a likelihood is of."""
    own = [tensor for tensor in (*likelihood.parameters(), *likelihood.buffers()) if tensor.is_floating_point()]
    zeros = torch.zeros(num_rows, num_outputs)
    return conditional(likelihood, zeros.to(own[0]) if own else zeros)


def label_moments(p: Float[Tensor, "*batch C"]) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Mean and variance of a label, as a number, that has the probabilities p."""
    labels = torch.arange(p.shape[-1], dtype=p.dtype, device=p.device)
    mean = p @ labels
    return mean, (p * (labels - mean.unsqueeze(-1)).square()).sum(-1)


def label_quantile(p: Float[Tensor, "*batch C"], level: Float[Tensor, ""]) -> Float[Tensor, "*batch"]:
    """The smallest label k with P(y ≤ k) ≥ level, as a number."""
    below = (p.cumsum(-1) < level).sum(-1)
    return below.clamp_max(p.shape[-1] - 1).to(p.dtype)  # probabilities may add up to a little less than one
