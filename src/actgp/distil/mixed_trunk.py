"""The trunk of a mixture: its composed means, and all else of its heaviest member of one layer that is given x.

    mean = Σ_m w_m mean_m(x) + Σ_m w_m (1/K) Σ_k mean_m(x, μ_k(x))

Variances and noise are that member's: its k(x, x) − Σ A² is the distance from what its inducing variables know.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.distil.layer_pass import MeanPass
from actgp.distil.trunk import Along, GaussianNoise, Trunk
from actgp.models import DeepGP, Mixture, Networks
from actgp.models.mixture import adds_to_networks
from actgp.models.networks import BENT, beside_waves


class NetworksPass(nn.Module):
    """x ↦ μ_k(x), by operations that onnxruntime has in both precisions: asinh(x) = ± log(|x| + √(x² + 1)).

    Args:
        networks: The networks.
    """

    shares: Tensor
    factors: Tensor
    frequencies: Tensor
    phases: Tensor
    mixing: Tensor
    mixing_bias: Tensor

    def __init__(self, networks: Networks) -> None:
        super().__init__()
        self.register_buffer("shares", networks.shares.detach().clone().view(-1, 1, 1, 1))
        for name in ("factors", "frequencies", "phases", "mixing", "mixing_bias"):
            self.register_buffer(name, getattr(networks, name).detach().clone())
        matrices = [networks.first, *networks.inner, networks.last]  # [G K, n, m]
        biases = [*networks.biases, networks.last_bias]
        self.num_matrices = len(matrices)
        for i, (W, b) in enumerate(zip(matrices, biases, strict=True)):
            self.register_buffer(f"matrix_{i}", (W * W.shape[1] ** -0.5).detach().clone())
            self.register_buffer(f"bias_{i}", b.detach().clone())

    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "K N P"]:
        z = X.to(self.factors.dtype) / BENT
        z = BENT * z.sign() * (z.abs() + (z.square() + 1.0).sqrt()).log()
        x = beside_waves(z, self.frequencies, self.phases, self.mixing, self.mixing_bias) * self.factors
        for i in range(self.num_matrices):
            x = x @ self.get_buffer(f"matrix_{i}") + self.get_buffer(f"bias_{i}")
            if i + 1 < self.num_matrices:
                x = nn.functional.silu(x)
        return (self.shares * x.unflatten(0, (self.shares.shape[0], -1))).sum(0)


class MixedTrunk(nn.Module):
    """Composed means of all members, and the variances of one.

    Args:
        mixture: One that `nearest_member` finds a member of.
    """

    shares: Tensor

    @torch.no_grad()
    def __init__(self, mixture: Mixture) -> None:
        super().__init__()
        chosen = nearest_member(mixture)
        assert chosen is not None
        self.chosen, self.num_given = chosen, len(mixture.given_inputs)
        self.own = Trunk(mixture.members[chosen])
        others = [member for m, member in enumerate(mixture.members) if m != chosen]
        self.others = nn.ModuleList(composed_means(member) for member in others)
        self.adding = [adds_to_networks(member) for member in others]
        self.networks = None if mixture.networks is None else NetworksPass(mixture.networks)
        order = [chosen, *(m for m in range(len(mixture.members)) if m != chosen)]
        self.register_buffer("shares", mixture.shares.detach()[order].clone())

    @property
    def noise(self) -> GaussianNoise:
        """That of the chosen member."""
        return self.own.noise

    def forward(self, h: Float[Tensor, "N D"]) -> Along:
        along: Along = self.own(h)
        means = [along.mean]
        outputs = h.new_zeros(0) if self.networks is None else self.networks(h)
        for m, (member, adding) in enumerate(zip(self.others, self.adding, strict=True), start=1):
            if m < self.num_given:
                means.append(member(h))
            elif adding:
                means.append(member(self._behind(h, outputs.mean(0, keepdim=True))))
            else:
                means.append(member(self._behind(h, outputs)).unflatten(0, (-1, h.shape[0])).mean(0))
        shares = self.shares.to(h.dtype)
        return along._replace(mean=torch.stack([shares[m] * mean for m, mean in enumerate(means)]).sum(0))

    @staticmethod
    def _behind(h: Float[Tensor, "N D"], outputs: Float[Tensor, "K N P"]) -> Float[Tensor, "KN D+P"]:
        """[x, μ_k(x)], of all networks one after the other."""
        x = h.unsqueeze(0).expand(outputs.shape[0], -1, -1)
        return torch.cat([x, outputs.to(h.dtype)], dim=-1).flatten(0, 1)


def nearest_member(mixture: Mixture) -> int | None:
    """The heaviest of one layer that is given x itself; None if there is none, or if others stand behind backbones."""
    if any(member.backbone is not None for member in mixture.members):
        return None
    few = [m for m in range(len(mixture.given_inputs)) if len(mixture.members[m].gp_layers) == 1]
    return max(few, key=lambda m: float(mixture.shares[m]), default=None)


def composed_means(model: DeepGP) -> nn.Sequential:
    """x ↦ the composed means of a deep GP."""
    constants, _ = model.constants_and_kl()
    pairs = zip(model.gp_layers, (each.whitening for each in constants), strict=True)
    return nn.Sequential(*(MeanPass(layer, found) for layer, found in pairs))


def trunk_of(structure: DeepGP | Mixture) -> Trunk | MixedTrunk:
    """What is cheap and exact in either."""
    return MixedTrunk(structure) if isinstance(structure, Mixture) else Trunk(structure)
