"""What is cheap and exact in a deep GP: the composed means, and the last layer's variances where they lead.

    h̄_0 = x,   h̄_ℓ = E[f_ℓ(h̄_{ℓ−1})],   mean = h̄_L
    unexplained = k(h̄, h̄) − Σ A²,     explained = ‖A F‖²,  F Fᵀ the mean of S_p S_pᵀ,     h̄ = h̄_{L−1}

The first of the two variances does not depend on q: it is the distance from what the inducing variables know.
"""

import copy
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.distil.layer_pass import MarginalPass, MeanPass
from actgp.likelihoods import Latent, adapter_of
from actgp.linalg import stable_cholesky
from actgp.models import DeepGP


class Along(NamedTuple):
    """What the trunk says of N rows.

    Attributes:
        mean: The composed means.
        unexplained: Of the last layer's prior variance; with the horizon's, if there is one.
        explained: What q makes of the rest, a mean over outputs.
        prior: k(h̄, h̄).
        noise: Variances of the normals that Gaussian noise consists of; none for other likelihoods.
        last: h̄, the last layer's inputs.
    """

    mean: Float[Tensor, "N P"]
    unexplained: Float[Tensor, "N 1"]
    explained: Float[Tensor, "N 1"]
    prior: Float[Tensor, "N 1"]
    noise: Float[Tensor, "N C"]
    last: Float[Tensor, "N H"]


class Trunk(nn.Module):
    """Composed means and the last layer's variances, of a deep GP as it is now, without a backbone.

    Args:
        model: The deep GP.
    """

    @torch.no_grad()
    def __init__(self, model: DeepGP) -> None:
        super().__init__()
        constants, _ = model.constants_and_kl()
        *hidden, last = zip(model.gp_layers, (each.whitening for each in constants), strict=True)
        self.hidden = nn.ModuleList(MeanPass(layer, found) for layer, found in hidden)
        S = last[0].q.scale_tril.double()
        self.last = MarginalPass(*last, stable_cholesky((S @ S.mT).mean(0)).L.unsqueeze(0))
        self.noise = GaussianNoise(model)

    def forward(self, h: Float[Tensor, "N D"]) -> Along:
        for layer in self.hidden:
            h = layer(h)
        mean, *variances = self.last(h)
        unexplained, explained, prior = (values.reshape(-1, 1) for values in variances)
        return Along(mean, unexplained, explained, prior, self.noise(h), h)


class GaussianNoise(nn.Module):
    """h ↦ variances of the normals that noise consists of: constant + slope · relative noise. None for classes.

    Args:
        model: The deep GP.
    """

    weights: Tensor
    constant: Tensor
    slope: Tensor

    def __init__(self, model: DeepGP) -> None:
        super().__init__()
        self.likelihood = copy.deepcopy(model.likelihood).requires_grad_(False)
        for name, values in zip(("weights", "constant", "slope"), noise_of(model), strict=True):
            self.register_buffer(name, values)  # [C]

    def forward(self, h: Float[Tensor, "N H"]) -> Float[Tensor, "N C"]:
        constant, slope = self.constant.to(h.dtype), self.slope.to(h.dtype)
        relative = adapter_of(self.likelihood).relative_noise(h)
        return (constant + slope).expand(h.shape[0], -1) if relative is None else constant + slope * relative


@torch.no_grad()
def noise_of(model: DeepGP) -> tuple[Float[Tensor, " C"], Float[Tensor, " C"], Float[Tensor, " C"]]:
    """Weights of the normals of Gaussian noise, and their variances as constant + slope · relative noise."""
    one = torch.ones(1, 1, 1, dtype=model.dtype, device=model.gp_layers[0].q.raw_mean.device)
    zero, adapter = torch.zeros_like(one), adapter_of(model.likelihood)
    if adapter.noise_variance() is None:
        return one.new_zeros(0), one.new_zeros(0), one.new_zeros(0)
    varies = adapter.noise_parameters().slopes is not None
    at_zero, at_one = (
        adapter.normal_components(Latent(zero, zero, relative if varies else None)) for relative in (zero, one)
    )
    constant = at_zero[2].flatten() if varies else torch.zeros_like(at_one[0])
    return at_one[0], constant, at_one[2].flatten() - constant
