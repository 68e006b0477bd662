"""Any trained network as the prior mean of a GP: the same predictions, and an uncertainty beside them.

The network is not taken apart: it runs as it is, and the GP g that is added to its outputs begins at zero. What `fit`
then trains is g and the noise, and so how far the network is to be trusted, and where. To make its weights those of a
deep GP, as the paper does, see `convert_weights`.
"""

import copy
from dataclasses import dataclass

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import Likelihood, SoftmaxLikelihood
from jaxtyping import Float
from torch import Tensor, nn

from actgp import checks
from actgp.autocast import full_precision
from actgp.convert.anchor import (
    ROWS,
    SOME_ROWS,
    Anchor,
    Select,
    check_network,
    find_head,
    run_all,
    scaling,
    seen,
)
from actgp.features import InducingPoints, centres
from actgp.kernels import ArcCosine
from actgp.layers import GPLayer
from actgp.likelihoods import ContaminatedGaussianLikelihood, adapter_of, supported, targets
from actgp.models import DeepGP

NUM_INDUCING = 100
FEWEST_ROWS = 10
MOST_INPUTS = 200  # columns of X up to which the GP sees them
NOISE = 0.1  # relative to the variance of the outputs, where there are no targets
SMALLEST_NOISE = 1e-5  # likewise, relative to that
TINY = 1e-30  # the least variance, where the network makes no error at all
LOGITS = 1.0  # the prior variance of what is added to logits


@dataclass(frozen=True)
class ConversionReport:
    """What a GP was put around.

    Attributes:
        network: The class of the network.
        num_inputs: How many columns of X the GP sees; 0 where X are no vectors.
        head: The name of the network's last Linear layer; empty where none was seen.
        num_features: How many features enter it, which the GP sees too.
        num_inducing: M, the inducing points.
        difference: How far the mean is from the network's outputs, at most.
        rmse: The root mean squared error of the network on the rows that it was given with; None for labels, or none.
    """

    network: str
    num_inputs: int
    head: str
    num_features: int
    num_inducing: int
    difference: float
    rmse: float | None

    def __str__(self) -> str:
        features = f"the {self.num_features} features that enter {self.head}" if self.head else ""
        inputs = f"{self.num_inputs} inputs" if self.num_inputs else ""
        saw = " and ".join(part for part in (inputs, features) if part) or "its outputs"
        lines = [
            f"{self.network} is the prior mean of a GP on {saw}, with {self.num_inducing} inducing points",
            f"largest difference between mean and network: {self.difference:.2g}",
        ]
        if self.rmse is not None:
            lines.append(
                f"RMSE of the network on these rows: {self.rmse:.4g}; if it was trained on them, give fit others as "
                "held_out, by which the width of predictions is chosen"
            )
        return "\n".join(lines)


@full_precision
@torch.no_grad()
def convert(
    network: nn.Module,
    X: Tensor,
    y: Tensor | None = None,
    *,
    likelihood: Likelihood | None = None,
    num_inducing: int = NUM_INDUCING,
    select: Select | None = None,
    generator: torch.Generator | None = None,
) -> tuple[DeepGP, ConversionReport]:
    """Puts a GP around a trained network, whose outputs are the prior mean: f(x) = network(x) + g(x).

    The mean of the model is the network's output, to the round-off of one addition, until `fit` lets g correct it. Any
    module will do that maps a batch of inputs to a batch of outputs. It is copied, read in evaluation mode, and frozen.

    Args:
        network: The network.
        X: Inputs such as it was trained on, in its precision, or whole numbers such as tokens.
        y: Their targets, by which a likelihood is chosen: labels make a softmax over as many classes as there are
            outputs, other numbers Gaussian noise with outliers that varies.
        likelihood: Another gpytorch likelihood of as many latent functions as the network has outputs.
        num_inducing: M, how many inducing points g has, at the centres of clusters of what it sees; never more than
            there are rows.
        select: A function that takes the outputs, [N, P] or [N], out of what the network gives, if it gives more.
        generator: Source of the seed of the clusters; torch's global one by default.

    Returns:
        The model, and a report. `fit(model, X, y, held_out=(…))` then takes seconds, since the network runs once.

    Example:
        >>> import actgp, torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        >>> model, report = actgp.convert(net, torch.randn(200, 3))
    """
    M = min(checks.integer(num_inducing, "num_inducing", minimum=1), len(_checked(network, X)))
    own = copy.deepcopy(network).eval()
    for parameter in own.parameters():
        parameter.requires_grad_(False)
    check_network(own, X, select)
    head = find_head(own, X[:SOME_ROWS])
    found = run_all(own, X, head, select)
    outputs, dtype, P = found.outputs, found.outputs.dtype, found.outputs.shape[1]
    sees_inputs = X.ndim == 2 and X.is_floating_point() and X.shape[1] <= MOST_INPUTS
    parts = seen(X, found, sees_inputs)
    centre, scale = (values.to(dtype) for values in scaling(parts))
    z = (torch.cat(parts, dim=1).to(dtype) - centre) * scale
    anchor = Anchor(own, head, select, sees_inputs, centre, scale)

    chosen = _likelihood(outputs, y, z.shape[1] + P) if likelihood is None else likelihood
    adapter = adapter_of(supported(chosen, P, z.shape[1] + P))
    values = None if y is None else targets(chosen, y, len(X), P, dtype)
    error = (outputs - values).square().mean().item() if values is not None and adapter.squared_error else None
    expected = _expected_error(outputs) if error is None else error
    if likelihood is None and adapter.squared_error:
        chosen.noise = max(expected, 10 * SMALLEST_NOISE * _expected_error(outputs))
    seed = int(torch.randint(2**31, (), generator=generator))
    layer = GPLayer(ArcCosine(z.shape[1]), InducingPoints(centres(z, M, seed)), P, "carried")
    mean_square = z.square().sum(1).mean().item() + 1  # E r²
    layer.kernel.variance = max(expected if adapter.squared_error else LOGITS, TINY) / mean_square
    model = DeepGP([layer], chosen, anchor, keep_column=not found.flat).to(X.device, dtype)
    return model, ConversionReport(
        network=type(network).__name__,
        num_inputs=X.shape[1] if sees_inputs else 0,
        head=head or "",
        num_features=0 if found.features is None else found.features.shape[1],
        num_inducing=M,
        difference=(model.mean(X[:ROWS]).view(-1, P) - outputs[:ROWS]).abs().max().item(),
        rmse=None if error is None else error**0.5,
    )


def _checked(network: nn.Module, X: Tensor) -> Tensor:
    """Returns X, if it may go through a network."""
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"network must be a torch.nn.Module, got {type(network).__name__}; wrap the function in a module"
        )
    if not isinstance(X, Tensor):
        raise TypeError(
            f"X must be a tensor, a batch of inputs of the network, got {type(X).__name__}; wrap a network of several "
            "inputs in a module that takes them as one tensor"
        )
    if X.is_floating_point():
        checks.finite(checks.tensor(X, "X"), "X")
        if floating := [p for p in network.parameters() if p.is_floating_point()]:
            checks.precision(X, floating)
    if X.ndim < 2 or len(X) < FEWEST_ROWS:
        raise ValueError(
            f"X must have shape [N, …] with at least {FEWEST_ROWS} rows, got {list(X.shape)}; pass some of the inputs "
            "that the network was trained on"
        )
    return X


def _likelihood(outputs: Float[Tensor, "N P"], y: Tensor | None, input_dim: int) -> Likelihood:
    """Softmax for labels, else Gaussian noise with outliers that varies."""
    P = outputs.shape[1]
    if isinstance(y, Tensor) and not y.is_floating_point():
        if P == 1:
            raise ValueError(
                "a network of one output needs a likelihood for labels, got none; pass e.g. "
                "gpytorch.likelihoods.BernoulliLikelihood() for two classes with a probit, or y.float() for numbers"
            )
        return SoftmaxLikelihood(num_classes=P, num_features=P, mixing_weights=False)
    constraint = GreaterThan(SMALLEST_NOISE * _expected_error(outputs))
    return ContaminatedGaussianLikelihood(noise_constraint=constraint, input_dim=input_dim)


def _expected_error(outputs: Float[Tensor, "N P"]) -> float:
    """Of a network whose targets are not known."""
    variance = outputs.double().var(0).mean().item()
    return NOISE * variance if variance > 0 else NOISE
