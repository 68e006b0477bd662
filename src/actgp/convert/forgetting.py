"""Logits that are believed less the further an input is from the data: classes stay in order, certainty goes.

    μ(x) ↦ μ(x) / (T(x) √(1 + (γ ρ(x) + γ' e(x)²) ‖μ̃(x)‖² / λ²)),     e(x) = max(0, ρ(x) / ρ̂ − 1)

    T(x) = T for T ≥ 1, and else T^min(1, 1 / ρ(x)²): only where inputs are like the data do logits become longer

μ̃ are the logits less their mean over classes (a single logit as it is). Logits that are off by errors of variance
τ²(x) come to about μ / √(1 + τ²(x)) under the softmax (MacKay's approximation, but for a constant); here errors are
relative to the logits, and grow with what the input is unlike. That is measured by the GP around the network: u is the
fraction of its prior variance that inducing points leave unexplained, with the directions ŵ_m of these points and x̂ of
[z, 1] and the shape s of its kernel

    u = 1 − ‖L⁻¹ s(Ŵ x̂)‖²,     L Lᵀ = s(Ŵ Ŵᵀ),     ρ = (u + .001) / (ū + .001)

On held-out rows ū is the median of u, ρ̂ the 99 % quantile of ρ, and λ² the mean of ‖μ̃‖². So γ is for all inputs, γ' for
those that are unlike nearly all of the data: there logits are no longer than λ / (√γ' e), however sure the network is.

All three are chosen by rows that the network was not trained on. T and γ are the most probable ones given these rows,
with a Cauchy distribution of scale .15 for log T and an exponential one of mean 1 for γ: T < 1 < T √(1 + γ ρ) is usual,
sharper logits where the network knows the likes of an input well. γ' has the largest mean log-likelihood of these rows
as they are and perturbed (`perturbed`), among those with which the mean loss −log p(y) of rows as they are grows by at
most 1 %, and that of no perturbed ones by more than 3 %.
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
from actgp.training.lbfgs import maximise

STRENGTHS = (0.0, *(0.01 * 1.6**i for i in range(23)))  # γ'
EDGE = 0.99  # the quantile of ρ from which on γ' counts
PRICE, PRICE_OF_PERTURBED = 0.01, 0.03  # of the mean loss −log p(y)
SPREAD, USUAL = 0.15, 1.0  # scale of the prior of log T, mean of that of γ
NUM_STEPS = 40  # of L-BFGS
JITTER = 1e-6  # relative: L⁻¹ is kept in the network's precision
NEAR = 1e-3  # of the prior variance
TINY = 1e-12


def shape(t: Tensor) -> Tensor:
    """s, the same in any dimension."""
    return ArcCosine(1).shape(t.clamp(-1, 1))


class Softening(NamedTuple):
    """What held-out rows chose.

    Attributes:
        temperature: T.
        strength: γ, of what makes inputs unlike each other among the data.
        beyond: γ', of what makes them unlike nearly all of the data.
        edge: ρ̂, from which on it counts.

    Example:
        >>> import actgp, torch
        >>> net, X = torch.nn.Linear(2, 3), torch.randn(100, 2)
        >>> labels = torch.randint(3, (100,))
        >>> model, report = actgp.convert(net, X, labels)
        >>> actgp.soften(model, X, labels).temperature > 0
        True
    """

    temperature: float
    strength: float
    beyond: float
    edge: float

    def divisor(self, unlike: float) -> float:
        """What logits of the usual length are divided by, where u is so many times its median."""
        return float(divisor(torch.tensor(unlike).double(), torch.ones(()).double(), *self))

    def __str__(self) -> str:
        far = 2 * self.edge
        return (
            f"logits are divided by {self.divisor(1.0):.3g}, and by {self.divisor(far):.3g} where inputs are {far:.2g} "
            "times as unlike the data as usual"
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
        self.register_buffer("numbers", points.new_tensor([1.0, 0.0, 0.0, 1.0, 1.0]))  # T, γ/λ², γ'/λ², ρ̂, ū

    @classmethod
    def unset(cls, tensors: dict[str, Tensor]) -> "Forgetting":
        """One of the size that a file says, its tensors yet to be set."""
        M, d = tensors["directions"].shape
        return cls(torch.eye(M, d - 1))

    def forward(self, z: Float[Tensor, "N D"], mu: Float[Tensor, "N P"]) -> Float[Tensor, "N P"]:
        *numbers, typical = self.numbers.double()
        return softened(mu, relative(self.unlike(z), typical), *numbers)

    def unlike(self, z: Float[Tensor, "N D"]) -> Float64[Tensor, " N"]:
        """u, from products in the network's precision: rounding is far below the thousandth that is added in ρ."""
        t = project(lift(z)).direction @ self.directions.T  # [N, M]
        return (1 - (self.shape(t) @ self.whitening.T).square().sum(1)).double().clamp_min(TINY)

    @torch.no_grad()
    def choose(
        self,
        held_out: tuple[Tensor, Tensor],
        y: Tensor,
        perturbed: Iterator[tuple[Tensor, Tensor]],
        likelihood: Likelihood,
    ) -> Softening:
        """Chooses T, γ and γ'.

        Args:
            held_out: z and μ of held-out rows.
            y: Their labels.
            perturbed: Those of the first of these rows, perturbed in several ways.
            likelihood: Of the labels.
        """
        adapter, u, first = adapter_of(likelihood), self.unlike(held_out[0]), held_out[1].double()
        typical, size = u.median(), lengths(first).mean().clamp_min(TINY)
        rho = relative(u, typical)
        edge = rho.quantile(EDGE)
        temperature, strength = _most_probable(adapter, first, rho, size, y)
        versions = [(first, rho), *((mu.double(), relative(self.unlike(z), typical)) for z, mu in perturbed)]

        def scores(beyond: float) -> Float64[Tensor, " K"]:
            numbers = (temperature, strength / size, beyond / size, edge)
            values = (adapter.conditional_log_prob(softened(mu, rho, *numbers), y[: len(mu)]) for mu, rho in versions)
            return torch.stack([value.mean() for value in values])

        alone = scores(0.0)
        price = torch.full_like(alone, PRICE_OF_PERTURBED)
        price[0] = PRICE
        least = alone * (1 + price)
        found = {beyond: scores(beyond) for beyond in STRENGTHS}
        allowed = {beyond: values.mean().item() for beyond, values in found.items() if (values >= least).all()}
        best = max(allowed, key=lambda beyond: allowed[beyond])
        self.numbers.copy_(torch.stack([temperature, strength / size, best / size, edge, typical]))
        return Softening(temperature.item(), strength.item(), best, edge.item())


def relative(unlike: Float64[Tensor, " N"], typical: Tensor) -> Float64[Tensor, " N"]:
    """ρ."""
    return (unlike + NEAR) / (typical + NEAR)


def divisor(
    rho: Float64[Tensor, " N"],
    length: Float64[Tensor, " N"],
    temperature: Tensor | float,
    strength: Tensor | float,
    beyond: Tensor | float,
    edge: Tensor | float,
) -> Float64[Tensor, " N"]:
    """T(x) √(1 + (γ ρ + γ' e²) ‖μ̃‖²), for lengths ‖μ̃‖²."""
    far = (rho / edge - 1).clamp_min(0).square()
    log_T = torch.as_tensor(temperature).to(rho).log()
    log_T = log_T.clamp_min(0) + log_T.clamp_max(0) * rho.pow(-2).clamp_max(1)
    return log_T.exp() * (1 + (strength * rho + beyond * far) * length).sqrt()


def softened(mu: Float[Tensor, "N P"], rho: Float64[Tensor, " N"], *numbers: Tensor | float) -> Float[Tensor, "N P"]:
    """The formula above, for T, γ / λ², γ' / λ² and ρ̂."""
    return mu / divisor(rho, lengths(mu.double()), *numbers).unsqueeze(-1).to(mu)


def lengths(mu: Float[Tensor, "N P"]) -> Float[Tensor, " N"]:
    """‖μ̃‖²."""
    return (mu if mu.shape[1] == 1 else mu - mu.mean(1, keepdim=True)).square().sum(1)


@torch.enable_grad()
def _most_probable(
    adapter: LikelihoodAdapter, mu: Float64[Tensor, "N P"], rho: Float64[Tensor, " N"], size: Tensor, y: Tensor
) -> tuple[Tensor, Tensor]:
    """T and γ."""
    log_T, root = (mu.new_tensor(start, requires_grad=True) for start in (0.0, 0.5))  # γ = root²
    length = lengths(mu) / size

    def objective() -> Tensor:
        scale = divisor(rho, length, log_T.exp(), root.square(), 0.0, 1.0)
        prior = -((log_T / SPREAD).square()).log1p() - root.square() / USUAL
        return adapter.conditional_log_prob(mu / scale.unsqueeze(-1), y).sum() + prior

    maximise([log_T, root], objective, NUM_STEPS)
    return log_T.detach().exp(), root.detach().square()
