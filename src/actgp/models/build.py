"""A deep GP in one call: `Layers` says what its layers are made of, and `deep_gp` builds them.

The defaults that stand here are those of `deep_gp`, of `hybrid` and of the estimators.
"""

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

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
from actgp.persistence import savable

KernelName = Literal["arccosine", "matched"]

NUM_LAYERS, NUM_INDUCING = 3, 128
WIDEST = 16  # hidden dimensions by default: sampling more costs more than it gains


@savable
@dataclass(frozen=True)
class Layers:
    """What the layers of a deep GP are made of. The defaults are the paper's where nothing else is said.

    Attributes:
        activation: An activation or its name. The default softplus has a sharpness of 1, which leaves less of the prior
            unexplained than the paper's, `Softplus(3.0)`.
        kernel: "arccosine", or "matched", whose spectrum is the activation's, so that the features explain more of it.
        num_levels: Ñ, the levels of the activation that are kept.
        num_points: K, how many of a layer's M inducing variables are inducing points, for what the M − K units leave
            unexplained (`DecoupledFeatures`); `fit` places them. Half of M by default; the paper has none, 0.
        hidden_dim: The width between layers: by default that of the inputs, D, but at most 16.
        prior_mean: Of the hidden layers: "zero" as in the paper, or "identity", a skip connection, for hidden_dim = D;
            by default "identity" where that is possible.
        horizon: The radius ‖[h / ℓ, 1]‖ of the last layer's inputs h beyond which it forgets (`Horizon`), and a class
            becomes as probable as any other. By default there is none, and along a ray a class stays as probable as it
            is; `forget_beyond` sets it by the data, and `DGPClassifier` calls that.

    Example:
        >>> import actgp
        >>> layers = actgp.Layers(activation="relu", num_levels=10)
    """

    activation: str | Activation = "softplus"
    kernel: KernelName = "arccosine"
    num_levels: int = 20
    num_points: int | None = None
    hidden_dim: int | None = None
    prior_mean: PriorMean | None = None
    horizon: float | None = None

    def __post_init__(self) -> None:
        activation_of(self.activation)
        checks.choice(self.kernel, "kernel", ("arccosine", "matched"))
        self._keep("num_levels", checks.integer(self.num_levels, "num_levels", minimum=1))
        if self.num_points is not None:
            self._keep("num_points", checks.integer(self.num_points, "num_points", minimum=0))
        if self.hidden_dim is not None:
            self._keep("hidden_dim", checks.integer(self.hidden_dim, "hidden_dim", minimum=1))
        if self.prior_mean is not None:
            checks.choice(self.prior_mean, "prior_mean", ("zero", "identity"))
        if self.horizon is not None:
            self._keep("horizon", checks.positive(self.horizon, "horizon"))

    def _keep(self, name: str, value: float) -> None:
        """As plain numbers, which files can hold."""
        object.__setattr__(self, name, value)


def deep_gp(
    input_dim: int,
    num_outputs: int = 1,
    num_layers: int = NUM_LAYERS,
    num_inducing: int = NUM_INDUCING,
    *,
    layers: Layers | None = None,
    likelihood: Likelihood | None = None,
    generator: torch.Generator | None = None,
) -> DeepGP:
    """A deep GP with activated features in every layer, and inducing points for what these leave unexplained.

    Args:
        input_dim: D, the number of inputs.
        num_outputs: P, the number of outputs; for a softmax likelihood, the number of classes.
        num_layers: How many GP layers.
        num_inducing: M, the number of inducing variables of each layer: hidden units and inducing points together.
        layers: What the layers are made of: activation, kernel, width and more, see `Layers`.
        likelihood: A gpytorch likelihood; by default a `ContaminatedGaussianLikelihood`, Gaussian noise with outliers,
            whose variance depends on what the last layer is given.
            `gpytorch.likelihoods.GaussianLikelihood()` is the paper's; it keeps the variance above 1e-4, unless it is
            given another `noise_constraint`.
        generator: Draws the initial directions.

    Returns:
        The model, untrained: `fit` trains it.

    Example:
        >>> import actgp, gpytorch
        >>> model = actgp.deep_gp(input_dim=8, num_outputs=1)
        >>> as_published = actgp.deep_gp(
        ...     input_dim=8,
        ...     layers=actgp.Layers(activation=actgp.Softplus(3.0), num_points=0, prior_mean="zero"),
        ...     likelihood=gpytorch.likelihoods.GaussianLikelihood(),
        ... )
    """
    D = checks.integer(input_dim, "input_dim", minimum=1)
    P = checks.integer(num_outputs, "num_outputs", minimum=1)
    L = checks.integer(num_layers, "num_layers", minimum=1)
    M = checks.integer(num_inducing, "num_inducing", minimum=1)
    layers = check_layers(layers)
    K = M // 2 if layers.num_points is None else layers.num_points
    if K >= M:
        raise ValueError(f"num_points must be less than num_inducing = {M}, got {K}; leave some to activations")
    H = min(D, WIDEST) if layers.hidden_dim is None else layers.hidden_dim
    hidden_mean: PriorMean = ("identity" if H == D else "zero") if layers.prior_mean is None else layers.prior_mean
    widths = [D, *[H] * (L - 1), P]
    likelihood = ContaminatedGaussianLikelihood(input_dim=widths[-2]) if likelihood is None else likelihood
    supported(likelihood, P, widths[-2])
    gp_layers = []
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        activation = copy.deepcopy(activation_of(layers.activation))  # a learnable sharpness is each layer's own
        units = ActivatedFeatures(inputs, M - K, activation, layers.num_levels, generator=generator)
        features: InducingFeatures = units
        if K > 0:
            features = DecoupledFeatures(units, InducingPoints(torch.randn(K, inputs, generator=generator)))
        matched = layers.kernel == "matched"
        kernel = MatchedKernel(inputs, activation, layers.num_levels) if matched else ArcCosine(inputs)
        last = i == L - 1
        prior_mean: PriorMean = "zero" if last else hidden_mean
        gp_layers.append(GPLayer(kernel, features, outputs, prior_mean, horizon=layers.horizon if last else None))
    return DeepGP(gp_layers, likelihood)


def check_layers(layers: Any) -> Layers:
    """Returns `layers`, or the default for None."""
    if layers is not None and not isinstance(layers, Layers):
        raise TypeError(
            f"layers must be an actgp.Layers or None, got {type(layers).__name__}; "
            "pass e.g. actgp.Layers(activation='relu')"
        )
    return Layers() if layers is None else layers
