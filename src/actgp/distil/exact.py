"""The prediction of a deep GP with a fixed number of paths as one module, for export: no student, nothing is learnt.

    h_s,0 = x,   h_s,ℓ = mean_ℓ(h_s,ℓ−1) + sd_ℓ(h_s,ℓ−1) ε_sℓ,   s = 1, …, S,

with the ε of `DeepGP.predict`.
"""

import copy
from itertools import accumulate

import torch
from gpytorch.likelihoods import BernoulliLikelihood, SoftmaxLikelihood
from jaxtyping import Float
from torch import Tensor, nn

from actgp import checks
from actgp.convert.forgetting import Forgetting
from actgp.distil.layer_pass import MarginalPass
from actgp.distil.outputs import Classes, Normals, Outputs, normal_cdf
from actgp.distil.scaling import Scaling
from actgp.distil.shapes import Shape
from actgp.distil.trunk import GaussianNoise
from actgp.kernels import ArcCosine
from actgp.likelihoods import BernoulliLogitLikelihood, adapter_of
from actgp.models import DeepGP
from actgp.models.deep import SEED, sampled
from actgp.sampling import normal_points

POINTS = 4_096  # of a softmax, for all paths together
GRID, REACH = 61, 6.0  # points of one latent function, and how many standard deviations they go


class ExactPaths(nn.Module):
    """What `model.predict(X, num_samples)` gives, by plain operations alone: a `Normals` or `Classes`.

    Args:
        model: A deep GP.
        num_samples: S.
        scaling: What stands between data and model.
    """

    @torch.no_grad()
    def __init__(self, model: DeepGP, num_samples: int, scaling: Scaling | None = None) -> None:
        super().__init__()
        self.num_paths = checks.integer(num_samples, "num_samples", minimum=1) if len(model.gp_layers) > 1 else 1
        self.scaling = scaling
        self.backbone = None if model.backbone is None else copy.deepcopy(model.backbone).eval()
        for part in self.modules():
            if isinstance(part, Forgetting):
                part.shape = Shape(ArcCosine(1), torch.float64)
        constants, _ = model.constants_and_kl()
        pairs = zip(model.gp_layers, (each.whitening for each in constants), strict=True)
        self.layers = nn.ModuleList(MarginalPass(layer, found, layer.q.scale_tril) for layer, found in pairs)
        widths = [layer.num_outputs for layer in model.gp_layers]
        points = normal_points(self.num_paths, sum(widths[:-1]), SEED).to(constants[-1].mean)  # [S, ΣH]
        for i, end in enumerate(accumulate(widths[:-1])):
            self.register_buffer(f"noise_{i}", points[:, None, end - widths[i] : end].clone())
        self.widths = widths
        adapter = adapter_of(model.likelihood)
        self.noise = GaussianNoise(model) if adapter.noise_variance() is not None else None
        self.labels = None if self.noise is not None else LabelNodes(model, self.num_paths)

    def forward(self, X: Tensor) -> Outputs:
        """A `Normals` or `Classes`; nothing is checked."""
        X = X if self.scaling is None else self.scaling.inputs(X)
        h = X if self.backbone is None else self.backbone(X)
        first, *others = self.layers
        N, (mean, variance) = h.shape[0], _marginals(first, h)
        for i, layer in enumerate(others):
            mean, variance = (values.reshape(-1, N, self.widths[i]) for values in (mean, variance))
            h = sampled(mean, variance, self.get_buffer(f"noise_{i}")).reshape(-1, self.widths[i])
            mean, variance = _marginals(layer, h)
        mean, variance = (values.reshape(self.num_paths, N, -1) for values in (mean, variance))
        if self.labels is not None:
            return self.labels(mean, variance)
        assert self.noise is not None
        weights = self.noise.weights.to(mean.dtype)
        outputs = self._mixture(mean, variance, self.noise(h).reshape(-1, N, 1, len(weights)), weights)
        return outputs if self.scaling is None else self.scaling.outputs(outputs)

    def _mixture(
        self,
        mean: Float[Tensor, "S N P"],
        variance: Float[Tensor, "S N P"],
        noise: Float[Tensor, "_ N 1 C"],
        weights: Float[Tensor, " C"],
    ) -> Normals:
        variances = (variance.unsqueeze(-1) + noise).movedim(-1, 0).flatten(0, 1)  # [C S, N, P]
        means = mean.repeat(len(weights), 1, 1)
        chances = (weights.repeat_interleave(self.num_paths) / self.num_paths).view(-1, 1, 1).expand_as(means)
        centre = mean.mean(0)
        epistemic = variance.mean(0) + (mean - centre).square().mean(0)
        aleatoric = (noise @ weights).mean(0).expand_as(centre)
        found = (centre, epistemic.sqrt(), aleatoric.sqrt(), chances, means, variances)
        return Normals(*(values.squeeze(-1) if mean.shape[-1] == 1 else values for values in found))


def _marginals(layer: nn.Module, h: Float[Tensor, "N H"]) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
    mean, unexplained, explained, _ = layer(h)
    return mean, unexplained.unsqueeze(-1) + explained


class LabelNodes(nn.Module):
    """p(y | f) integrated along each path: over a grid for one latent function, at quasi-random points for several.

    Args:
        model: A deep GP of classes.
        num_paths: S.
    """

    nodes: Tensor
    chances: Tensor

    def __init__(self, model: DeepGP, num_paths: int) -> None:
        super().__init__()
        self.kind, P = type(model.likelihood), model.num_outputs
        weights = getattr(model.likelihood, "mixing_weights", None)
        if self.kind in (BernoulliLikelihood, BernoulliLogitLikelihood) and P == 1:
            x = torch.linspace(-REACH, REACH, GRID, dtype=torch.float64)
            nodes, chances = x.expand(num_paths, GRID), (-0.5 * x**2).softmax(0)
            nodes = nodes.reshape(num_paths, GRID, 1, 1)
        elif self.kind is SoftmaxLikelihood and weights is None:
            Q = -(-POINTS // num_paths)
            nodes = normal_points(num_paths * Q, P, SEED).reshape(num_paths, Q, 1, P)
            chances = torch.full((Q,), 1 / Q, dtype=torch.float64)
        else:
            raise TypeError(
                f"a deep GP of classes can be exported with Bernoulli likelihoods of one output and with softmax "
                f"without mixing weights, got {self.kind.__name__} of {P} outputs; export a student of it"
            )
        self.register_buffer("nodes", nodes.to(model.dtype))
        self.register_buffer("chances", chances.to(model.dtype).view(-1, 1, 1))

    def forward(self, mean: Float[Tensor, "S N P"], variance: Float[Tensor, "S N P"]) -> Classes:
        sd, means, squares = variance.sqrt(), [], []
        for s in range(mean.shape[0]):  # one path after the other, so that memory does not grow with their number
            p = self._given(mean[s] + sd[s] * self.nodes[s])  # [Q, N, C]
            means.append((self.chances * p).sum(0))
            squares.append((self.chances * p.square()).sum(0))
        total = torch.stack(means).mean(0)
        return Classes(total, (torch.stack(squares).mean(0) - total.square()).clamp_min(0.0).sqrt())

    def _given(self, f: Float[Tensor, "Q N P"]) -> Float[Tensor, "Q N C"]:
        if self.kind is SoftmaxLikelihood:
            return f.softmax(-1)
        p = torch.sigmoid(f) if self.kind is BernoulliLogitLikelihood else normal_cdf(f)
        return torch.cat([1 - p, p], dim=-1)
