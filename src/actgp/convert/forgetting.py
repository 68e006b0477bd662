"""Logits that a network is believed less the further an input is from the data: classes stay in order, certainty goes.

    μ(x) ↦ μ(x) / (T √(1 + γ e(x)² ‖μ̃(x)‖² / λ²)),     e(x) = max(0, u(z(x)) − ū) / (ū + .01)

μ̃ are the logits less their mean over classes (a single logit as it is). Logits that are off by errors of variance
τ²(x) come to about μ / √(1 + τ²(x)) under the softmax (MacKay's approximation, but for a constant); here errors are
relative to the logits, and grow with what the input is unlike. That is measured by the GP around the network: u is the
fraction of its prior variance that inducing points leave unexplained, with the directions ŵ_m of these points and x̂ of
[z, 1] and the shape s of its kernel

    u = 1 − ‖L⁻¹ s(Ŵ x̂)‖²,     L Lᵀ = s(Ŵ Ŵᵀ)

ū is its 75 % quantile on held-out rows (a hundredth is added for few inputs, where u is next to nothing), so that most
of what is like the data keeps its logits, and λ² the mean of ‖μ̃‖² there. Where γ is large, logits are no longer than
λ / (√γ e), however sure the network is.

T and γ are chosen by rows that the network was not trained on. T gives them, as they are, the largest log-likelihood;
it is one unless that is better by two standard errors. γ has the largest mean log-likelihood of these rows as they are
and perturbed (`perturbed`), among those with which rows as they are lose at most .0003 nats, and none of the perturbed
ones more than .001.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from gpytorch.likelihoods import Likelihood
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp.kernels import ArcCosine
from actgp.likelihoods import LikelihoodAdapter, adapter_of
from actgp.linalg import invert, stable_cholesky
from actgp.sphere import lift, project

TEMPERATURES = (1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)
STRENGTHS = (0.0, *(0.01 * 1.6**i for i in range(27)))  # γ
USUAL = 0.75  # the quantile of u beyond which logits are believed less
PRICE, PRICE_OF_PERTURBED = 3e-4, 1e-3  # nats for each row
CERTAIN = 2.0  # standard errors by which a temperature has to be better than one
JITTER = 1e-6  # relative: L⁻¹ is kept in the network's precision
NEAR = 0.01  # of the prior variance
TINY = 1e-12


def shape(t: Tensor) -> Tensor:
    """s, the same in any dimension."""
    return ArcCosine(1).shape(t.clamp(-1, 1))


class Softening(NamedTuple):
    """What held-out rows chose.

    Attributes:
        temperature: T.
        strength: γ.

    Example:
        >>> import actgp, torch
        >>> net, X = torch.nn.Linear(2, 3), torch.randn(100, 2)
        >>> labels = torch.randint(3, (100,))
        >>> model, report = actgp.convert(net, X, labels)
        >>> actgp.soften(model, X, labels).temperature >= 1
        True
    """

    temperature: float
    strength: float

    def __str__(self) -> str:
        twice = (1 + self.strength) ** 0.5  # e = 1, at the usual length
        return (
            f"logits are divided by {self.temperature:.3g}, and where inputs are twice as unlike the data as usual by "
            f"{self.temperature * twice:.3g}"
        )


class Forgetting(nn.Module):
    """(z, μ) ↦ the logits that are left of μ.

    Args:
        points: The inducing points of g.
    """

    directions: Tensor
    whitening: Tensor
    numbers: Tensor

    def __init__(self, points: Float[Tensor, "M D"]) -> None:
        super().__init__()
        directions = project(lift(points.double())).direction
        self.shape: Callable[[Tensor], Tensor] = shape  # another way to compute it is put here for ONNX files
        L = stable_cholesky(shape(directions @ directions.T), JITTER).L
        self.register_buffer("directions", directions.to(points))
        self.register_buffer("whitening", invert(L).to(points))
        self.register_buffer("numbers", points.new_tensor([1.0, 0.0, 1.0]))  # T, γ/λ², ū

    @classmethod
    def unset(cls, tensors: dict[str, Tensor]) -> "Forgetting":
        """One of the size that a file says, its tensors yet to be set."""
        M, d = tensors["directions"].shape
        return cls(torch.eye(M, d - 1))

    def forward(self, z: Float[Tensor, "N D"], mu: Float[Tensor, "N P"]) -> Float[Tensor, "N P"]:
        temperature, strength, typical = self.numbers.double()
        return softened(mu, beyond(self.unlike(z), typical), temperature, strength)

    def unlike(self, z: Float[Tensor, "N D"]) -> Float64[Tensor, " N"]:
        """u."""
        t = project(lift(z.double())).direction @ self.directions.double().T  # [N, M]
        return (1 - (self.shape(t) @ self.whitening.double().T).square().sum(1)).clamp_min(TINY)

    @torch.no_grad()
    def choose(self, rows: Iterator[tuple[Tensor, Tensor]], y: Tensor, likelihood: Likelihood) -> Softening:
        """Chooses T and γ.

        Args:
            rows: Pairs (z, μ) of held-out rows, first as they are, then perturbed.
            y: Their labels.
            likelihood: Of these.
        """
        versions = [(self.unlike(z), mu.double()) for z, mu in rows]
        unlike, mu = (torch.cat(values) for values in zip(*versions, strict=True))
        first, typical = versions[0][1], versions[0][0].quantile(USUAL)
        size = lengths(first).mean().clamp_min(TINY)
        far, adapter = beyond(unlike, typical), adapter_of(likelihood)

        def scores(temperature: float, strength: float) -> Float64[Tensor, " K"]:
            return _scores(adapter, softened(mu, far, temperature, strength / size), y)

        def cools(temperature: float) -> bool:
            better = adapter.conditional_log_prob(first / temperature, y) - adapter.conditional_log_prob(first, y)
            return temperature == 1 or bool(better.mean() > CERTAIN * better.std() / len(better) ** 0.5)

        temperature = max(filter(cools, TEMPERATURES), key=lambda T: scores(T, 0.0)[0].item())
        alone = scores(temperature, 0.0)
        price = torch.full_like(alone, PRICE_OF_PERTURBED)
        price[0] = PRICE
        found = {strength: scores(temperature, strength) for strength in STRENGTHS}
        allowed = {
            strength: values.mean().item() for strength, values in found.items() if (values >= alone - price).all()
        }
        best = Softening(temperature, max(allowed, key=lambda strength: allowed[strength]))
        self.numbers.copy_(torch.stack([typical.new_tensor(best.temperature), best.strength / size, typical]))
        return best


def beyond(unlike: Float64[Tensor, " N"], typical: Tensor) -> Float64[Tensor, " N"]:
    """e²."""
    return ((unlike - typical).clamp_min(0) / (typical + NEAR)).square()


def softened(
    mu: Float[Tensor, "N P"], far: Float[Tensor, " N"], temperature: Tensor | float, strength: Tensor
) -> Float[Tensor, "N P"]:
    """The formula above, for e² and γ/λ²."""
    scale = temperature * (1 + strength * far * lengths(mu.double())).sqrt()
    return mu / scale.unsqueeze(-1).to(mu)


def lengths(mu: Float[Tensor, "N P"]) -> Float[Tensor, " N"]:
    """‖μ̃‖²."""
    return (mu if mu.shape[1] == 1 else mu - mu.mean(1, keepdim=True)).square().sum(1)


def _scores(adapter: LikelihoodAdapter, mu: Float64[Tensor, "N P"], y: Tensor) -> Float64[Tensor, " K"]:
    """The mean log-likelihood of each of K versions of the rows."""
    K = len(mu) // len(y)
    return adapter.conditional_log_prob(mu, torch.cat([y] * K)).view(K, -1).mean(1)
