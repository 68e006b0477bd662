"""Two classes, by the probit: p(y = 1 | f) = Φ(f).

∫ Φ(f) N(f; μ, v) df = Φ(μ / √(1 + v)),     1 − Φ(x) = Φ(−x)
"""

from math import log, pi
from typing import final

import torch
from gpytorch.likelihoods import BernoulliLikelihood
from jaxtyping import Float
from torch import Generator, Tensor

from actgp.autocast import full_precision
from actgp.likelihoods.adapter import Latent, LikelihoodAdapter, Moments, adapter_of
from actgp.likelihoods.general import check_shapes
from actgp.likelihoods.numerics import expectation_by_quadrature, grid_nodes, in_chunks, joined
from actgp.likelihoods.targets import columns, some


@adapter_of.register(BernoulliLikelihood)
@final
class BernoulliAdapter(LikelihoodAdapter):
    """p(y | f) = Φ((2y − 1) f)."""

    has_temperature = True

    def check_supported(self, num_outputs: int | None, input_dim: int | None) -> None:
        check_shapes(self, num_outputs)

    def outcomes(self, y: Tensor, num_outputs: int, dtype: torch.dtype) -> Tensor:
        values = columns(y, num_outputs, dtype)
        if not ((values == 0) | (values == 1)).all():
            raise ValueError(f"y must hold the labels 0 and 1, got {some(values)}; map the two classes to 0 and 1")
        return values

    expected_log_prob = expectation_by_quadrature

    @full_precision
    def log_marginal(self, y: Tensor, latent: Latent, generator: Generator | None = None) -> Tensor:
        """In closed form."""
        return torch.special.log_ndtr((2 * y - 1) * latent.mean / (1 + latent.variance).sqrt()).sum(-1)

    @full_precision
    def fisher_factors(self, f: Float[Tensor, "N P"]) -> Float[Tensor, "P N P"]:
        """r_p = φ/√(Φ(1−Φ)) e_p, from logarithms, where Φ itself would underflow."""
        f = f.detach()
        log_density = -0.5 * f.square() - 0.5 * log(2 * pi)
        roots = log_density - 0.5 * (torch.special.log_ndtr(f) + torch.special.log_ndtr(-f))
        return torch.diag_embed(roots.exp()).movedim(1, 0)

    def moments(self, latent: Latent) -> Moments:
        """E[y] = p in closed form, Var[Φ(f)] by quadrature; both parts of the variance add up to p (1 − p)."""
        parts = []
        for part, *_ in in_chunks(latent):
            f, log_weights = grid_nodes(part)
            weights = log_weights.exp() / len(part.mean)
            p = torch.special.ndtr(part.mean / (1 + part.variance).sqrt()).mean(0)
            epistemic = (weights * (self.conditional(f).mean - p).square()).sum((0, 1))
            parts.append(Moments(p, p * (1 - p) - epistemic, epistemic))
        return joined(parts)

    def probabilities(self, expected: Float[Tensor, "N P"], latent: Latent) -> Float[Tensor, "N *P 2"]:
        p = expected.squeeze(-1) if expected.shape[-1] == 1 else expected
        return torch.stack([1 - p, p], dim=-1)
