"""From what the trunk says to a predictive distribution: bounded corrections of closed forms, by a small network.

For real targets, with g_· the outputs of the network, u the unexplained and q the explained variance,

    epistemic² = c u + (u + q) exp(R tanh(g_e / R))
    σ_c²       = (the likelihood's) exp(R tanh(g_c / R)),        aleatoric² = Σ_c w_c σ_c²
    mean       = the network's + √(epistemic² + aleatoric²) R tanh(g_m / R)

and f is a mixture of a few normals with these two moments, so that y is one of K = (their number) × C. Since
u = k(h̄, h̄) − Σ A² does not depend on what was learnt, the epistemic variance never falls below c u: wherever the kernel
says that nothing is known, the student says so, too. For classes

    p = softmax(κ (B mean + g)),    κ = (1 + (π/8) (u + q) exp(R tanh(g_κ / R)))^−½
    δ_c = p_c² ((1 − p_c)² + Σ_{d≠c} p_d²) (u + q) exp(R tanh(g_s / R)),    1 / spread² = 1 / δ + 1 / (p (1 − p))

so that p goes to the uniform distribution where the variance outgrows the means. δ is the variance of p to first order,
for logits that are uncertain by themselves; no variance of a probability is larger than p (1 − p).
"""

from itertools import pairwise
from math import pi

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.distil.outputs import Classes, Normals
from actgp.distil.trunk import Along

WIDTH = 64
NORMALS = 3  # of f
FARTHEST = 6.0  # R: e⁶ = 400
CLASS_REACH = 20.0  # of corrections of logits
SMALLEST = 1e-12


class SmallNetwork(nn.Module):
    """Two hidden layers, which give zeros at first. Weights are [inputs, outputs], for the fastest product.

    Args:
        num_inputs: F.
        num_outputs: G.
        width: Of each hidden layer.
        generator: Draws the weights.
    """

    def __init__(self, num_inputs: int, num_outputs: int, width: int, generator: torch.Generator | None) -> None:
        super().__init__()
        widths = [num_inputs, width, width, num_outputs]
        sizes = list(pairwise(widths))
        weights = [torch.randn(before, after, generator=generator) * before**-0.5 for before, after in sizes[:-1]]
        self.weights = nn.ParameterList([*weights, torch.zeros(sizes[-1])])
        self.biases = nn.ParameterList([torch.zeros(after) for _, after in sizes])

    def forward(self, features: Float[Tensor, "N F"]) -> Float[Tensor, "N G"]:
        first, second, last = self.weights
        hidden = nn.functional.silu(torch.addmm(self.biases[0], features, first))
        hidden = nn.functional.silu(torch.addmm(self.biases[1], hidden, second))
        return torch.addmm(self.biases[2], hidden, last)


def bounded(g: Tensor, reach: float = FARTHEST) -> Tensor:
    """R tanh(g / R)."""
    return reach * torch.tanh(g / reach)


class ValueHead(nn.Module):
    """A mixture of normals for each of P outputs.

    Args:
        num_features: What the network sees.
        num_outputs: P.
        noise_weights: w, of the normals of the noise.
        floor: c.
        generator: Draws the weights of the network.
    """

    noise_weights: Tensor
    floor: Tensor

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        noise_weights: Float[Tensor, " C"],
        floor: float,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.num_outputs, C = num_outputs, len(noise_weights)
        self.sizes = [1, 1, C, NORMALS, NORMALS, NORMALS]
        self.network = SmallNetwork(num_features, num_outputs * sum(self.sizes), WIDTH, generator)
        self.shifts = nn.Parameter(torch.zeros(num_outputs, sum(self.sizes)))  # the same everywhere
        offsets, spreads = torch.linspace(-1.0, 1.0, NORMALS), torch.zeros(NORMALS)
        with torch.no_grad():
            self.shifts[:, 2 + C :] = torch.cat([torch.zeros(NORMALS), offsets, spreads])
        self.register_buffer("noise_weights", noise_weights.float())
        self.register_buffer("floor", torch.tensor(floor))

    def forward(self, along: Along, features: Float[Tensor, "N F"]) -> Normals:
        raw = self.network(features) + self.shifts.flatten()
        raw = raw.T.unflatten(0, self.shifts.shape).movedim(0, 1).contiguous()  # [_, P, N]: rows last is fastest
        g_mean, g_epistemic, g_noise, logits, offsets, spreads = raw.split(self.sizes)
        noise = along.noise.T.unsqueeze(1) * bounded(g_noise).exp()  # [C, P, N]
        unexplained, known = along.unexplained[:, 0], along.explained[:, 0]
        factor = bounded(g_epistemic[0]).exp()  # [P, N]
        epistemic = self.floor * unexplained + (unexplained + known) * factor + SMALLEST
        chances = self.noise_weights.view(-1, 1, 1)
        aleatoric = (chances * noise).sum(0)
        mean = along.mean.T + (epistemic + aleatoric).sqrt() * bounded(g_mean[0])
        # f = mean + √epistemic (a mixture of zero mean and unit variance)
        share = logits.softmax(0)  # [K, P, N]
        offsets = offsets - (share * offsets).sum(0)
        squares = (2 * bounded(spreads, 3.0)).exp()
        size = epistemic / (share * (offsets.square() + squares)).sum(0)
        means, own = mean + size.sqrt() * offsets, size * squares  # [K, P, N]
        # y = f + noise
        weights = share.unsqueeze(1) * chances  # [K, C, P, N]
        variances = own.unsqueeze(1) + noise
        parts = (values.flatten(0, 1) for values in (weights, means.unsqueeze(1).expand_as(variances), variances))
        found = (mean, epistemic.sqrt(), aleatoric.sqrt(), *parts)
        return Normals(*(values.squeeze(-2) if self.num_outputs == 1 else values.mT for values in found))


class ClassHead(nn.Module):
    """Probabilities of C classes, and their spread.

    Args:
        num_features: What the network sees.
        logits: B, from latent functions to logits.
        generator: Draws the weights of the network.
    """

    logits: Tensor

    def __init__(
        self, num_features: int, logits: Float[Tensor, "C P"], generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        C = len(logits)
        self.sizes = [C, 1, C]
        self.network = SmallNetwork(num_features, sum(self.sizes), WIDTH, generator)
        self.register_buffer("logits", logits.clone())

    def forward(self, along: Along, features: Float[Tensor, "N F"]) -> Classes:
        g, g_width, g_spread = self.network(features).split(self.sizes, dim=-1)
        total = along.unexplained + along.explained  # [N, 1]
        narrowing = (1.0 + pi / 8 * total * bounded(g_width).exp()).rsqrt()
        p = (narrowing * (along.mean @ self.logits.T + bounded(g, CLASS_REACH))).softmax(-1)
        own = p.detach()  # what is learnt about the spread leaves the probabilities alone
        squares, rest = own.square(), 1.0 - own
        slopes = rest.square() + (squares.sum(-1, keepdim=True) - squares)
        first_order = slopes * total * bounded(g_spread).exp()  # δ / p²
        spread = first_order / (1.0 + own * first_order / rest.clamp_min(SMALLEST))
        return Classes(p, own * (spread + SMALLEST).sqrt())
