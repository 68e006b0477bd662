"""Ordered labels: y = 0, …, C − 1, with probabilities p that follow from one latent function, for each output.

    E[y | f] = Σ_k k p_k,     Var[y | f] = Σ_k p_k (k − E[y | f])²

Which likelihoods are of this kind is read off what they give, a `Categorical` for each latent function, so that those
of users are, too.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Categorical, Distribution


def ordered(given: Distribution, num_dims: int) -> bool:
    """Whether p(y | f), f of so many dimensions, is of one label for each latent function, not one for each row."""
    return isinstance(given, Categorical) and len(given.batch_shape) == num_dims


def label_moments(p: Float[Tensor, "*batch C"]) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Mean and variance of a label, as a number, that has the probabilities p."""
    labels = torch.arange(p.shape[-1], dtype=p.dtype, device=p.device)
    mean = p @ labels
    return mean, (p * (labels - mean.unsqueeze(-1)).square()).sum(-1)


def label_quantile(p: Float[Tensor, "*batch C"], level: Float[Tensor, ""]) -> Float[Tensor, "*batch"]:
    """The smallest label k with P(y ≤ k) ≥ level, as a number."""
    below = (p.cumsum(-1) < level).sum(-1)
    return below.clamp_max(p.shape[-1] - 1).to(p.dtype)  # probabilities may add up to a little less than one
