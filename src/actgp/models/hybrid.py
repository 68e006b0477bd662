"""A deep GP behind the first layers of a network, its backbone, whose features are centred, scaled and may be reduced.

    h = c (z − μ)        or        h = c Vᵀ (z − μ), V the first principal directions;        c such that E‖h‖² = ρ²

The kernel k = v r² s(1), r² = ‖h‖² + 1, knows near from far by the directions of [h, 1] and by r. The
features of a network are often hundreds of units long and share a large mean: as they are, their directions hardly
differ, and the 1 is lost among them.
"""

from dataclasses import replace

import torch
from gpytorch.likelihoods import Likelihood, SoftmaxLikelihood
from jaxtyping import Float
from torch import Tensor, nn

from actgp import checks
from actgp.models.build import Layers, check_layers, deep_gp
from actgp.models.deep import DeepGP

RADIUS = 4.0  # ρ
MOST_ROWS = 10_000
ROWS = 512  # that go through the backbone at a time
SMALLEST = 1e-12


class FeatureScale(nn.Module):
    """z ↦ c (z − μ), with constants that are not trained.

    Args:
        mean: μ.
        scale: c.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Float[Tensor, " D"], scale: Float[Tensor, ""]) -> None:
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("scale", scale.clone())

    def forward(self, z: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        if isinstance(z, Tensor) and z.shape[-1] != len(self.mean):  # torch.fx traces with what is none
            raise ValueError(
                f"a backbone must give as many features as when the model was built, {len(self.mean)}, got "
                f"{list(z.shape)}; pass a batch of inputs of the same size as then"
            )
        return (z - self.mean) * self.scale


def hybrid(
    backbone: nn.Module,
    X: Tensor,
    num_outputs: int,
    num_layers: int = 2,
    num_inducing: int = 128,
    *,
    reduce_to: int | None = None,
    layers: Layers | None = None,
    likelihood: Likelihood | None = None,
    generator: torch.Generator | None = None,
) -> DeepGP:
    """A deep GP behind a backbone, such as the convolutions of a trained network.

    `fit` trains the backbone with the layers, in all stages. If it was frozen before this call, by
    `backbone.requires_grad_(False)`, it stays as it is, and its features are computed only once.

    Args:
        backbone: A module from inputs to features [N, D]. It becomes part of the model, in evaluation mode.
        X: Inputs like those that the model will be trained on: their features say how to centre and scale. Whole
            numbers, such as pixels of uint8, are for the backbone to convert.
        num_outputs: P; for a softmax likelihood, the number of classes.
        num_layers: How many GP layers.
        num_inducing: M of each, hidden units and inducing points together.
        reduce_to: How many principal directions of the features to keep, by a linear layer that is trained where the
            backbone is; all features by default.
        layers: What the layers are made of, as in `deep_gp`; but the width between them is P by default. For ReLU
            behind many features, few levels are better: 4 at 128 of them, as a warning then says.
        likelihood: A gpytorch likelihood; by default softmax over P classes.
        generator: Draws the initial directions.

    Returns:
        The model, untrained: `fit` trains it.

    Example:
        >>> import actgp, torch
        >>> convolutions = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten())
        >>> model = actgp.hybrid(convolutions, torch.rand(50, 1, 8, 8), num_outputs=10, num_inducing=20)
    """
    P = checks.integer(num_outputs, "num_outputs", minimum=1)
    if likelihood is None and P == 1:
        raise ValueError(
            "num_outputs must be at least 2, the classes of the softmax that is the default likelihood, got 1; pass "
            "likelihood=GaussianLikelihood() for real targets, or BernoulliLikelihood() for two classes"
        )
    layers = check_layers(layers)
    z = _features(backbone, X)
    if likelihood is None:
        likelihood = SoftmaxLikelihood(num_classes=P, num_features=P, mixing_weights=False)
    scaling = _scaling(z) if reduce_to is None else _reduction(z, checks.integer(reduce_to, "reduce_to", minimum=1))
    if not any(p.requires_grad for p in backbone.parameters()):
        scaling.requires_grad_(False)
    if layers.hidden_dim is None:
        layers = replace(layers, hidden_dim=P)
    D = z.shape[1] if reduce_to is None else reduce_to
    head = deep_gp(D, P, num_layers, num_inducing, layers=layers, likelihood=likelihood, generator=generator).to(z)
    return DeepGP(head.gp_layers, head.likelihood, nn.Sequential(backbone.eval(), scaling))


@torch.no_grad()
def _features(backbone: nn.Module, X: Tensor) -> Float[Tensor, "N D"]:
    """The backbone's features of rows from all over X, 10,000 at most."""
    if not isinstance(backbone, nn.Module):
        raise TypeError(
            f"backbone must be a torch.nn.Module, got {type(backbone).__name__}; wrap the function in a module"
        )
    whole = isinstance(X, Tensor) and not X.is_floating_point() and not X.is_complex()  # pixels, or tokens
    if not whole:
        checks.finite(checks.tensor(X, "X"), "X")
    if X.ndim < 2 or len(X) < 2:
        raise ValueError(f"X must have shape [N, …] with at least two rows, got {list(X.shape)}; pass a batch")
    if not whole and (floating := [p for p in backbone.parameters() if p.is_floating_point()]):
        checks.precision(X, floating)
    modes = [(module, module.training) for module in backbone.modules()]
    try:
        rows = X[:: -(-len(X) // MOST_ROWS)]
        parts = [backbone.eval()(part) for part in rows.split(ROWS)]
    finally:
        for module, mode in modes:
            module.training = mode
    shape = list(parts[0].shape) if isinstance(parts[0], Tensor) else type(parts[0]).__name__
    if not isinstance(parts[0], Tensor) or parts[0].ndim != 2:
        raise ValueError(
            f"a backbone must give features [N, D], got {shape}; end it with nn.Flatten() or a pooling, and return "
            "one tensor"
        )
    return checks.finite(torch.cat(parts), "the backbone's output")


def _scaling(z: Float[Tensor, "N D"]) -> FeatureScale:
    mean = z.mean(0)
    spread = (z - mean).square().sum(1).mean().sqrt().clamp_min(SMALLEST)
    return FeatureScale(mean, RADIUS / spread)


@torch.no_grad()
def _reduction(z: Float[Tensor, "N D"], K: int) -> nn.Linear:
    N, D = z.shape
    if min(N, D) < K:
        raise ValueError(
            f"reduce_to must be at most {min(N, D)}, the features and rows that there are, got {K}; lower it"
        )
    mean = z.mean(0)
    _, sizes, V = torch.linalg.svd((z - mean).double(), full_matrices=False)  # [N, D] = U diag(sizes) V
    spread = (sizes[:K].square().sum() / N).sqrt().clamp_min(SMALLEST)
    linear = nn.Linear(D, K).to(z)
    linear.weight.copy_(RADIUS / spread * V[:K])
    linear.bias.copy_(-linear.weight @ mean)
    return linear
