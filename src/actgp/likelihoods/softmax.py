"""Classes without an order: p(y = c | f) = softmax(W f)_c, or softmax(f)_c where the likelihood has no weights W."""

from typing import final

import torch
from gpytorch.likelihoods import SoftmaxLikelihood
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Categorical

from actgp.autocast import full_precision
from actgp.likelihoods.adapter import Latent, LikelihoodAdapter, Moments, adapter_of
from actgp.likelihoods.checked import some
from actgp.likelihoods.numerics import (
    expectation_by_sampling,
    in_chunks,
    joined,
    log_prob_at_nodes,
    marginal_by_sampling,
    moments_at_nodes,
    score,
    sobol_nodes,
    sobol_points,
)

NARROW = (1 / 16, 1 / 4)  # standard deviations of f below which fewer points do
SHARES = (16, 4, 1)  # of all points, one in so many


@adapter_of.register(SoftmaxLikelihood)
@final
class SoftmaxAdapter(LikelihoodAdapter):
    """One label for each row, of P latent functions, the features of gpytorch's likelihood."""

    has_temperature = True

    def check_supported(self, num_outputs: int | None, input_dim: int | None) -> None:
        if num_outputs not in (None, self.num_latent):
            raise ValueError(
                f"num_outputs must be the softmax likelihood's number of features {self.num_latent}, got "
                f"{num_outputs}; make them agree"
            )

    @property
    def num_latent(self) -> int:
        return int(self.likelihood.num_features)

    def outcomes(self, y: Tensor, num_outputs: int, dtype: torch.dtype) -> Tensor:
        if y.ndim == 2 and y.shape[1] != 1:
            raise ValueError(
                f"y must hold one label for each row, got shape {list(y.shape)}; use y.argmax(1) for one-hot labels"
            )
        labels, C = y.reshape(-1), self.likelihood.num_classes
        if not (labels == labels.round()).all():
            raise ValueError(
                f"y must hold integer labels from 0 to {C - 1}, got {some(labels)}; relabel, or use a Gaussian "
                "likelihood for real targets"
            )
        if not ((labels >= 0) & (labels < C)).all():
            raise ValueError(
                f"y must hold integer labels from 0 to {C - 1}, got {some(labels)}; "
                f"relabel, or build the likelihood with num_classes={int(labels.max()) + 1}"
            )
        return labels.long()

    def conditional(self, f: Float[Tensor, "*batch N P"]) -> Categorical:
        # gpytorch takes [.., F, F] for its old transposed layout: so a row at a time, or, for a single feature, twice.
        rows = f.unsqueeze(-2)  # [.., N, 1, F]
        given = self.likelihood(torch.cat([rows, rows], -2) if f.shape[-1] == 1 else rows)
        return Categorical(logits=given.logits[..., 0, :])

    expected_log_prob = expectation_by_sampling
    log_marginal = marginal_by_sampling

    @full_precision
    def fisher_factors(self, f: Float[Tensor, "N P"]) -> Float[Tensor, "C N P"]:
        """One factor for each class: its score times the root of its probability."""
        f = f.detach()
        labels = torch.arange(self.likelihood.num_classes, device=f.device)
        scores = [score(self, f, label.expand(len(f))) for label in labels]
        probabilities: Tensor = self.conditional(f).probs  # [N, C]
        return torch.stack(scores) * probabilities.detach().T.sqrt().unsqueeze(-1)

    def moments(self, latent: Latent) -> Moments:
        if self.likelihood.mixing_weights is not None:
            return moments_at_nodes(self, sobol_nodes, latent)
        return joined([_unmixed_moments(part) for part, *_ in in_chunks(latent)])

    def mixture_log_prob(self, y: Tensor, latent: Latent) -> Float[Tensor, " N"]:
        return log_prob_at_nodes(self, sobol_nodes, y, latent)

    def probabilities(self, expected: Float[Tensor, "N C"], latent: Latent) -> Float[Tensor, "N C"]:
        return expected


def _unmixed_moments(latent: Latent) -> Moments:
    """For p = softmax(f), at nodes of equal weight: E[p], E[p] − E[p²] and E[p²] − E[p]².

    The error of n nodes is about sd / n, so that rows whose f is nearly known need fewer.
    """
    sd = latent.variance.amax((0, 2)).sqrt()  # [N]
    bands = torch.bucketize(sd, sd.new_tensor(NARROW))
    rows = [(bands == band).nonzero()[:, 0] for band in range(len(SHARES))]
    parts = [
        _moments_at_points(Latent(latent.mean[:, some], latent.variance[:, some]), share)
        for some, share in zip(rows, SHARES, strict=True)
    ]
    back = torch.cat(rows).argsort()
    return Moments(*(values[back] for values in joined(parts)))


def _moments_at_points(latent: Latent, share: int) -> Moments:
    # Classes come first: a softmax over the last of few entries is several times slower.
    both = (latent.mean, latent.variance.sqrt())
    mean, sd = (values.permute(2, 0, 1).unsqueeze(1).contiguous() for values in both)  # [P, 1, S, N]
    points = sobol_points(latent.mean, share).permute(3, 0, 1, 2).contiguous()  # [P, Q, S, 1]
    p = torch.addcmul(mean, sd, points).softmax(0)  # [P, Q, S, N]
    total, square = p.mean((1, 2)).T, p.square_().mean((1, 2)).T
    return Moments(total, total - square, (square - total.square()).clamp_min(0.0))
