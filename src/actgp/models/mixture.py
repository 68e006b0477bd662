"""A weighted mixture of models: what one has learnt counts for as much as it has proved to be worth.

    p(y | x) = Σ_m w_m p_m(y | x)

Members are deep GPs, of one layer or more. Some are given x itself. Others stand around networks, and are given
h = [x, μ_k(x)], where the last P columns are the outputs of the k-th network; they are mixtures over k:

    p_m(y | x) = (1/K) Σ_k p_m(y | x, μ_k(x))

By the law of total variance, with E_m and Var_m those of a part and its weight w_m,

    mean = Σ w_m E_m,     aleatoric = Σ w_m aleatoric_m,     epistemic = Σ w_m (epistemic_m + (E_m − mean)²)
"""

import copy
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from gpytorch.likelihoods import Likelihood
from jaxtyping import Float
from torch import Tensor, nn

from actgp import checks
from actgp.layers import SampledFunction, mean_functions
from actgp.likelihoods import adapter_of
from actgp.likelihoods.gaussian import mixture_quantile
from actgp.models.deep import DeepGP
from actgp.models.networks import Networks
from actgp.models.prediction import Prediction
from actgp.persistence import Sizes, savable, save

SEED = 0
ROWS = 2_048  # that go through networks at a time


@dataclass(frozen=True)
class MixedPrediction:
    """The predictive distribution of a mixture at N inputs; tensors are [N] for one output, [N, P] for several.

    Attributes:
        parts: Predictions of its parts.
        weights: Their weights, which sum to one.

    Example:
        >>> import actgp, torch
        >>> models = [actgp.deep_gp(input_dim=2, num_layers=layers, num_inducing=10) for layers in (1, 2)]
        >>> prediction = actgp.Mixture(models, [], torch.tensor([0.7, 0.3])).predict(torch.randn(7, 2))
        >>> prediction.weights
        tensor([0.7000, 0.3000])
    """

    parts: tuple[Prediction, ...]
    weights: Float[Tensor, " C"]

    @property
    def mean(self) -> Tensor:
        """E[y]."""
        return self._sum([part.mean for part in self.parts])

    @property
    def aleatoric(self) -> Tensor:
        """E[Var[y | f]]."""
        return self._sum([part.aleatoric for part in self.parts])

    @property
    def epistemic(self) -> Tensor:
        """Var[E[y | f]]: of each part by itself, and between them."""
        mean = self.mean
        return self._sum([part.epistemic + (part.mean - mean).square() for part in self.parts])

    @property
    def variance(self) -> Tensor:
        """Var[y] = aleatoric + epistemic."""
        return self.aleatoric + self.epistemic

    @property
    def likelihood(self) -> Likelihood:
        """That of the first part."""
        return self.parts[0].likelihood

    @property
    def probabilities(self) -> Float[Tensor, "N *P C"]:
        """Class probabilities, where members have a likelihood of classes."""
        return self._sum([part.probabilities for part in self.parts])

    def log_prob(self, y: Tensor) -> Float[Tensor, " N"]:
        """The logarithm of p(y_i) under the mixture, summed over outputs."""
        densities = torch.stack([part.log_prob(y) for part in self.parts])  # [C, N]
        return (densities + self.weights.log().unsqueeze(-1)).logsumexp(0)

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """The central interval that holds y with probability `level`: its lower and upper ends."""
        if not 0.0 < checks.real(level, "level", example=0.95) < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {level}; pass e.g. 0.95")
        lower, upper = self.quantiles([(1 - level) / 2, (1 + level) / 2])
        return lower, upper

    def quantiles(self, levels: Iterable[float]) -> Float[Tensor, "Q N *P"]:
        """The values that y stays below with each of these probabilities, each output by itself."""
        probabilities, components = self.weights.new_tensor(checks.levels(levels)), self.normal_components()
        return checks.squeezed(torch.stack([mixture_quantile(*components, p) for p in probabilities]))

    def normal_components(self) -> tuple[Float[Tensor, " K"], Float[Tensor, "K N P"], Float[Tensor, "K N P"]]:
        """Each output of y by itself as a mixture of normals: weights, means, variances."""
        parts = [part.normal_components() for part in self.parts]
        weights = torch.cat([w * own for w, (own, _, _) in zip(self.weights, parts, strict=True)])
        return weights, torch.cat([means for _, means, _ in parts]), torch.cat([spread for _, _, spread in parts])

    def _sum(self, values: Sequence[Tensor]) -> Tensor:
        return torch.tensordot(self.weights, torch.stack(tuple(values)), dims=1)


@savable
class Mixture(nn.Module):
    """Deep GPs with weights, each of which is given x, or stands around networks.

    Args:
        given_inputs: Those that are given x.
        around_networks: Those that are given [x, μ_k(x)].
        weights: Of both, in this order; they are divided by their sum.
        networks: What gives μ_k; None where nothing stands around them.

    Example:
        >>> import actgp, torch
        >>> models = [actgp.deep_gp(input_dim=2, num_layers=layers, num_inducing=10) for layers in (1, 2)]
        >>> mixture = actgp.Mixture(models, [], torch.tensor([0.7, 0.3]))
        >>> mixture.predict(torch.randn(7, 2)).mean.shape
        torch.Size([7])
    """

    SIZES: ClassVar[Sizes] = {"weights": ("num_members",)}
    weights: Tensor

    def __init__(
        self,
        given_inputs: Sequence[DeepGP],
        around_networks: Sequence[DeepGP],
        weights: Float[Tensor, " M"],
        networks: Networks | None = None,
    ) -> None:
        super().__init__()
        M = len(given_inputs) + len(around_networks)
        if M == 0 or list(weights.shape) != [M] or not bool((weights >= 0).all()):
            raise ValueError(
                f"a mixture must have one or more members, and a weight for each that is not negative, got {M} members "
                f"and weights {weights.tolist()}; pass as many weights as members"
            )
        if around_networks and networks is None:
            raise ValueError("members around networks need networks, got None; pass networks=, or leave them out")
        self.given_inputs, self.around_networks = nn.ModuleList(given_inputs), nn.ModuleList(around_networks)
        self.networks = networks
        self.register_buffer("weights", weights.detach().clone())

    def config(self) -> dict[str, Any]:
        """The arguments of its constructor, for files (`persistence`)."""
        members = {"given_inputs": list(self.given_inputs), "around_networks": list(self.around_networks)}
        return {**members, "networks": self.networks}

    @property
    def shares(self) -> Float[Tensor, " M"]:
        """Weights that sum to one."""
        return self.weights / self.weights.sum()

    @property
    def members(self) -> list[DeepGP]:
        """All, in the order of the weights."""
        return [*self.given_inputs, *self.around_networks]

    @property
    def num_outputs(self) -> int:
        """P."""
        return self.members[0].num_outputs

    @property
    def input_dim(self) -> int:
        """D."""
        return self.members[0].gp_layers[0].input_dim if self.networks is None else self.networks.input_dim

    @property
    def likelihood(self) -> Likelihood:
        """That of the first member."""
        return self.members[0].likelihood

    @torch.no_grad()
    def predict(self, X: Float[Tensor, "N D"], num_samples: int = 20) -> MixedPrediction:
        """The predictive distribution at each input.

        Args:
            X: Inputs.
            num_samples: S, the paths of each member; one that stands around K networks has S / K for each.
        """
        checks.precision(checks.inputs(X, self.input_dim), self.parameters())
        parts = [member.predict(X, num_samples) for member in self._each(self.given_inputs)]
        if self.networks is not None:
            inputs = self.behind_networks(X)  # [K, N, D + P]
            parts += [_around(member, inputs, num_samples) for member in self._each(self.around_networks)]
        return MixedPrediction(tuple(parts), self.shares.to(X))

    @torch.no_grad()
    def predict_mean(self, X: Float[Tensor, "N D"], num_samples: int = 20) -> Tensor:
        """`predict(X, num_samples).mean`; of real targets without the variances of members of one layer.

        Args:
            X: Inputs.
            num_samples: S, the paths of each member of several layers.
        """
        if adapter_of(self.likelihood).noise_variance() is None:
            return self.predict(X, num_samples).mean
        checks.precision(checks.inputs(X, self.input_dim), self.parameters())
        means = []
        for member in self._each(self.given_inputs):
            one = len(member.gp_layers) == 1 and member.backbone is None
            means.append(_mean_of_layer(member, X) if one else member.predict(X, num_samples).mean)
        if self.networks is not None:
            inputs = self.behind_networks(X)
            for member in self._each(self.around_networks):
                one = adds_to_networks(member)
                mean = _mean_of_layer(member, inputs.mean(0)) if one else _around(member, inputs, num_samples).mean
                means.append(mean)
        return torch.tensordot(self.shares.to(X), torch.stack(means), dims=1)

    @torch.no_grad()
    def mean(self, X: Float[Tensor, "N D"]) -> Tensor:
        """What the members' networks say, weighted: no paths are sampled. [N] for one output, [N, P] for several."""
        checks.precision(checks.inputs(X, self.input_dim), self.parameters())
        means = [member.mean(X) for member in self._each(self.given_inputs)]
        if self.networks is not None and len(self.around_networks) > 0:
            inputs = self.behind_networks(X)
            means += [_mean_around(member, inputs) for member in self._each(self.around_networks)]
        return torch.tensordot(self.shares.to(X), torch.stack(means), dims=1)

    def sample_functions(
        self, num_functions: int, *, num_features: int = 1_000, generator: torch.Generator | None = None
    ) -> list[Callable[[Tensor], Tensor]]:
        """Draws functions from the posterior, each from a member, and of a network, that are drawn first.

        Each gives the same values whenever it is called, with gradients.

        Args:
            num_functions: How many.
            num_features: F, the random features that stand for what the inducing variables leave unexplained.
            generator: Source of randomness.
        """
        num_functions = checks.integer(num_functions, "num_functions", minimum=1)
        chosen = torch.multinomial(self.shares.cpu(), num_functions, replacement=True, generator=generator)
        functions: list[Callable[[Tensor], Tensor]] = []
        for m in chosen.tolist():
            (f,) = self.members[m].sample_functions(1, num_features=num_features, generator=generator)
            if m < len(self.given_inputs):
                functions.append(f)
            else:
                assert self.networks is not None
                k = int(torch.randint(self.networks.num_blends, (), generator=generator))
                functions.append(BehindNetwork(copy.deepcopy(self.networks), k, f))
        return functions

    def behind_networks(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "K N D+P"]:
        """h_k = [x, μ_k(x)]."""
        assert self.networks is not None
        outputs = torch.cat([self.networks.blended(part) for part in X.split(ROWS)], dim=1)
        return torch.cat([X.expand(len(outputs), *X.shape), outputs.to(X)], dim=-1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to a file, all of it at once; `actgp.load` reads it."""
        save(self, path)

    @staticmethod
    def _each(members: nn.ModuleList) -> list[DeepGP]:
        return list(members)  # type: ignore[arg-type]


def _around(member: DeepGP, inputs: Float[Tensor, "K N H"], num_samples: int) -> Prediction:
    """A member's prediction around K networks: a mixture of as many, or as many times the paths for each."""
    if adds_to_networks(member):
        one, mu = member.predict(inputs[0]), inputs[..., -member.num_outputs :]
        means = one.component_means + (mu - mu[0])
        relative = adapter_of(member.likelihood).relative_noise(inputs)
        return Prediction(means, one.component_variances.expand_as(means), member.likelihood, relative)
    paths, parts = -(-num_samples // len(inputs)), []
    for k, h in enumerate(inputs):
        parts.append(member.predict(h, paths, generator=torch.Generator().manual_seed(SEED + k)))
    means = torch.cat([part.component_means for part in parts])
    variances = torch.cat([part.component_variances for part in parts])
    noise = [part.relative_noise for part in parts if part.relative_noise is not None]
    return Prediction(means, variances, member.likelihood, torch.cat(noise) if noise else None)


def _mean_of_layer(member: DeepGP, h: Float[Tensor, "N H"]) -> Tensor:
    """The mean of a member of one layer, some rows at a time."""
    (mean,) = mean_functions(member.gp_layers)
    return checks.squeezed(torch.cat([mean(part) for part in h.split(ROWS)]))


def _mean_around(member: DeepGP, inputs: Float[Tensor, "K N H"]) -> Tensor:
    """The mean over K networks of a member's composed means."""
    if adds_to_networks(member):
        return member.mean(inputs.mean(0))
    return torch.stack([member.mean(h) for h in inputs]).mean(0)


def adds_to_networks(member: DeepGP) -> bool:
    """Whether a member is f = μ_k(x) + g(x): its g, and the variance, are the same around all networks."""
    return len(member.gp_layers) == 1 and member.gp_layers[0].prior_mean == "carried" and member.backbone is None


@dataclass(frozen=True)
class BehindNetwork:
    """x ↦ f([x, μ_k(x)]).

    Attributes:
        networks: What gives μ_k.
        k: Which of them.
        function: f.
    """

    networks: Networks
    k: int
    function: SampledFunction

    def __call__(self, X: Float[Tensor, "N D"]) -> Tensor:
        """Its values; differentiable in X."""
        return self.function(torch.cat([X, self.networks.blended(X)[self.k].to(X)], dim=-1))
