"""A deep model in one call."""

import copy
from itertools import pairwise
from typing import Literal

import torch
from gpytorch.likelihoods import Likelihood

from actgp import checks
from actgp.activations import Activation
from actgp.activations import activation as activation_of
from actgp.features import ActivatedFeatures, DecoupledFeatures, InducingFeatures, InducingPoints
from actgp.kernels import ArcCosine, MatchedKernel
from actgp.layers import GPLayer, PriorMean
from actgp.likelihoods import ContaminatedGaussianLikelihood, supported
from actgp.models.deep import DeepGP

KernelName = Literal["arccosine", "matched"]


def deep_gp(
    input_dim: int,
    num_outputs: int = 1,
    num_layers: int = 3,
    num_inducing: int = 128,
    *,
    hidden_dim: int | None = None,
    activation: str | Activation | None = None,
    kernel: KernelName = "arccosine",
    num_levels: int = 20,
    num_points: int | None = None,
    prior_mean: PriorMean | None = None,
    likelihood: Likelihood | None = None,
    horizon: float | None = None,
    generator: torch.Generator | None = None,
) -> DeepGP:
    """A deep GP with activated features in every layer, and inducing points for what these leave unexplained.

    Args:
        input_dim: D, the number of inputs.
        num_outputs: P, the number of outputs; for a softmax likelihood, the number of classes.
        num_layers: How many GP layers.
        num_inducing: M, the number of inducing variables of each layer: hidden units and inducing points together.
        num_points: K, how many of the M are inducing points, for what the M − K units leave unexplained
            (`DecoupledFeatures`); `fit` places them. Half of M by default; 0, units only, as in the paper.
        hidden_dim: The width between layers; D as in the paper by default.
        activation: An activation or its name; softplus by default, whose sharpness of 1 leaves less of the prior
            unexplained than the paper's, `Softplus(3.0)`.
        kernel: "arccosine" as in the paper, or "matched", whose spectrum is the activation's, so that the features
            explain more of it.
        num_levels: Ñ, the levels of the activation that are kept.
        prior_mean: Of the hidden layers: "zero" as in the paper, or "identity", a skip connection, for hidden_dim = D;
            by default "identity" where that is possible.
        likelihood: A gpytorch likelihood; by default a `ContaminatedGaussianLikelihood`, Gaussian noise with outliers,
            whose variance depends on what the last layer is given.
            `gpytorch.likelihoods.GaussianLikelihood()` is the paper's; it keeps the variance above 1e-4, unless it is
            given another `noise_constraint`.
        horizon: The radius ‖[h / ℓ, 1]‖ of the last layer's inputs h beyond which it forgets (`Horizon`), and a class
            becomes as probable as any other. None as in the paper: along a ray it stays as probable as it is.
        generator: Draws the initial directions.

    Example:
        >>> import actgp, gpytorch
        >>> model = actgp.deep_gp(input_dim=8, num_outputs=1)
        >>> as_published = actgp.deep_gp(
        ...     8,
        ...     num_points=0,
        ...     activation=actgp.Softplus(3.0),
        ...     prior_mean="zero",
        ...     likelihood=gpytorch.likelihoods.GaussianLikelihood(),
        ... )
    """
    D = checks.integer(input_dim, "input_dim", minimum=1)
    P = checks.integer(num_outputs, "num_outputs", minimum=1)
    L = checks.integer(num_layers, "num_layers", minimum=1)
    M = checks.integer(num_inducing, "num_inducing", minimum=1)
    K = M // 2 if num_points is None else checks.integer(num_points, "num_points", minimum=0)
    if K >= M:
        raise ValueError(f"num_points must be less than num_inducing = {M}, got {K}; leave some to activations")
    H = D if hidden_dim is None else checks.integer(hidden_dim, "hidden_dim", minimum=1)
    checks.choice(kernel, "kernel", ("arccosine", "matched"))
    widths = [D, *[H] * (L - 1), P]
    likelihood = ContaminatedGaussianLikelihood(input_dim=widths[-2]) if likelihood is None else likelihood
    supported(likelihood, P, widths[-2])
    chosen = activation_of("softplus" if activation is None else activation)
    hidden_mean: PriorMean = ("identity" if H == D else "zero") if prior_mean is None else prior_mean
    layers = []
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        own = copy.deepcopy(chosen)  # a learnable sharpness is each layer's own
        activated = ActivatedFeatures(inputs, M - K, own, num_levels, generator=generator)
        features: InducingFeatures = activated
        if K > 0:
            points = InducingPoints(torch.randn(K, inputs, generator=generator))
            features = DecoupledFeatures(activated, points)
        prior = ArcCosine(inputs) if kernel == "arccosine" else MatchedKernel(inputs, own, num_levels)
        last = i == L - 1
        mean: PriorMean = "zero" if last else hidden_mean
        layers.append(GPLayer(prior, features, outputs, mean, horizon=horizon if last else None))
    return DeepGP(layers, likelihood)
