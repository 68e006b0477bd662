"""Any trained network as the prior mean of a GP: the same predictions, and an uncertainty beside them.

The network is not taken apart: it runs as it is, and the GP g that is added to its outputs begins at zero. What `fit`
then trains is g and the noise, and so how far the network is to be trusted, and where. To make its weights those of a
deep GP, as the paper does, see `convert_weights`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import Likelihood, SoftmaxLikelihood
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import DataLoader

from actgp import checks
from actgp.autocast import full_precision
from actgp.convert.anchor import Anchor, Sees, Select, frozen_copy, scaled, scaling
from actgp.convert.reading import Reading, read
from actgp.features import InducingPoints, centres
from actgp.kernels import ArcCosine
from actgp.layers import GPLayer
from actgp.likelihoods import (
    BernoulliLogitLikelihood,
    ContaminatedGaussianLikelihood,
    adapter_of,
    supported,
    targets,
)
from actgp.models import DeepGP
from actgp.several import GivenRows

NUM_INDUCING = 100
NOISE = 0.1  # relative to the variance of the outputs, where there are no targets
SMALLEST_NOISE = 1e-5  # likewise, relative to that
TINY = 1e-30  # the least variance, where the network makes no error at all
LOGITS = 1.0  # the prior variance of what is added to logits


@dataclass(frozen=True)
class ConversionReport:
    """What a GP was put around.

    Attributes:
        network: The class of the network.
        num_rows: How many rows it was given with.
        num_inputs: How many columns of X the GP sees; 0 where X are no vectors.
        head: The name of the network's last Linear layer; empty where none was seen, or where the inputs enter it.
        num_features: How many features enter it, which the GP sees too.
        layers: Other layers whose outputs it sees.
        num_inducing: M, the inducing points.
        difference: How far the mean is from the network's outputs, at most.
        rmse: The root mean squared error of the network on the rows that it was given with; None for labels, or none.

    Example:
        >>> import actgp, torch
        >>> net, X = torch.nn.Linear(2, 1), torch.randn(50, 2)
        >>> model, report = actgp.convert(net, X, X.sum(1, keepdim=True))
        >>> report.network, report.num_inducing, report.difference < 1e-5
        ('Linear', 50, True)
    """

    network: str
    num_rows: int
    num_inputs: int
    head: str
    num_features: int
    layers: tuple[str, ...]
    num_inducing: int
    difference: float
    rmse: float | None

    @property
    def sees(self) -> str:
        """What the GP is given, in words."""
        features = f"the {self.num_features} features that enter layer {self.head}" if self.head else ""
        inputs = f"{self.num_inputs} inputs" if self.num_inputs else ""
        layers = f"what layers {', '.join(self.layers)} give" if self.layers else ""
        return " and ".join(part for part in (inputs, layers, features) if part) or "its outputs"

    def __str__(self) -> str:
        lines = [
            f"{self.network} is the prior mean of a GP on {self.sees}, with {self.num_inducing} inducing points",
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
    X: GivenRows | DataLoader[Any],
    y: Tensor | None = None,
    *,
    likelihood: Likelihood | None = None,
    num_inducing: int = NUM_INDUCING,
    sees: Sees = "inputs and features",
    layers: Sequence[str] = (),
    select: Select | None = None,
    generator: torch.Generator | None = None,
) -> tuple[DeepGP, ConversionReport]:
    """Puts a GP around a trained network, whose outputs are the prior mean: f(x) = network(x) + g(x).

    The mean of the model is the network's output, to the round-off of one addition, until `fit` lets g correct it. Any
    module will do that maps a batch of inputs to a batch of outputs. It is copied, read in evaluation mode, and frozen.

    Args:
        network: The network. A compiled or distributed one is used without what compiles or distributes it.
        X: Inputs such as it was trained on, in its precision, or whole numbers such as tokens: a tensor; for a network
            of several inputs a tuple of tensors, which is called network(*X), or a dictionary of them, network(**X);
            or a DataLoader that gives pairs (X, y), of which only outputs and features stay in memory.
        y: Their targets, by which a likelihood is chosen: labels make a softmax over as many classes as there are
            outputs, labels 0 and 1 a logit where there is one; other numbers make Gaussian noise with outliers that
            varies.
        likelihood: Another gpytorch likelihood of as many latent functions as the network has outputs, such as
            `PoissonLikelihood` for a network that gives logarithms of rates.
        num_inducing: M, how many inducing points g has, at the centres of clusters of what it sees; never more than
            there are rows.
        sees: What g is given to tell inputs apart: the inputs, if they are vectors, and the features that enter the
            network's last Linear layer, as far as there are such; or only one of these; or the network's outputs.
        layers: Names of modules of the network, as `named_modules` has them, whose outputs g sees beside inputs and the
            features that enter the last Linear layer; of outputs [N, C, …] the means over the last axes. Early layers
            show noise and other changes of images to which the last one is blind.
        select: A function that takes the outputs, [N, P] or [N], out of what the network gives, if it gives more.
        generator: Source of the seed of the clusters; torch's global one by default.

    Returns:
        The model, and a report. `fit(model, X, y, held_out=(…))` then takes seconds, since the network runs once.

    Example:
        >>> import actgp, torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        >>> model, report = actgp.convert(net, torch.randn(200, 3))
    """
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"network must be a torch.nn.Module, got {type(network).__name__}; wrap the function in a module"
        )
    M = checks.integer(num_inducing, "num_inducing", minimum=1)
    own = frozen_copy(network)
    found = read(own, X, y, select, checks.choice(sees, "sees", get_args(Sees)), layers)
    outputs, P = found.outputs, found.outputs.shape[1]
    D = sum(part.shape[1] for part in found.parts)
    chosen = _likelihood(outputs, found.y, D + P) if likelihood is None else likelihood
    supported(chosen, P, D + P)
    sight = replace(found.sight, directions=adapter_of(chosen).has_temperature and found.sight.has_features)
    centre, scale = (values.to(outputs.dtype) for values in scaling(found.parts, sight))
    z = scaled(found.parts, sight, centre, scale)  # [N, D]
    error = _squared_error(chosen, found)
    expected = _expected_error(outputs) if error is None else error
    if likelihood is None and adapter_of(chosen).squared_error:
        chosen.noise = max(expected, 10 * SMALLEST_NOISE * _expected_error(outputs))
    seed = int(torch.randint(2**31, (), generator=generator))
    layer = GPLayer(ArcCosine(z.shape[1]), InducingPoints(centres(z, min(M, len(z)), seed)), P, "carried")
    mean_square = z.square().sum(1).mean().item() + 1  # E r²
    layer.kernel.variance = max(expected if adapter_of(chosen).squared_error else LOGITS, TINY) / mean_square
    anchor = Anchor(own, sight, select, centre, scale)
    model = DeepGP([layer], chosen, anchor, keep_column=not found.flat).to(outputs.device, outputs.dtype)
    return model, _report(network, model, found, error)


def _squared_error(likelihood: Likelihood, found: Reading) -> float | None:
    """The network's mean squared error; None without targets, or for labels."""
    N, P = found.outputs.shape
    values = None if found.y is None else targets(likelihood, found.y, N, P, found.outputs.dtype)
    if values is None or not adapter_of(likelihood).squared_error:
        return None
    return (found.outputs - values.to(found.outputs.device)).square().mean().item()


def _report(network: nn.Module, model: DeepGP, found: Reading, error: float | None) -> ConversionReport:
    first = found.outputs[: len(found.first)]
    sight, columns = found.sight, [part.shape[1] for part in found.parts]
    num_features = columns[-1] if len(columns) > len(sight.inputs) and sight.head is not None else 0
    return ConversionReport(
        network=type(network).__name__,
        num_rows=len(found.outputs),
        num_inputs=sum(columns[: len(sight.inputs)]),
        head=sight.head or "",
        num_features=num_features,
        layers=sight.layers,
        num_inducing=model.gp_layers[0].features.num_inducing,
        difference=(model.mean(found.first).view(first.shape) - first).abs().max().item(),
        rmse=None if error is None else error**0.5,
    )


def _likelihood(outputs: Float[Tensor, "N P"], y: Tensor | None, input_dim: int) -> Likelihood:
    """A softmax for labels, or a logit; else Gaussian noise with outliers that varies."""
    P = outputs.shape[1]
    if isinstance(y, Tensor) and not y.is_floating_point():
        if P > 1:
            return SoftmaxLikelihood(num_classes=P, num_features=P, mixing_weights=False)
        if not ((y == 0) | (y == 1)).all():
            raise ValueError(
                "whole numbers as targets of a network of one output must be the labels 0 and 1, whose logit it gives, "
                f"got {y.unique()[:6].tolist()}; for counts, whose rates it gives the logarithms of, pass "
                "likelihood=gpytorch.likelihoods.PoissonLikelihood(), and y.float() for other numbers"
            )
        return BernoulliLogitLikelihood()
    constraint = GreaterThan(SMALLEST_NOISE * _expected_error(outputs))
    return ContaminatedGaussianLikelihood(noise_constraint=constraint, input_dim=input_dim)


def _expected_error(outputs: Float[Tensor, "N P"]) -> float:
    """Of a network whose targets are not known."""
    variance = outputs.double().var(0).mean().item()
    return NOISE * variance if variance > 0 else NOISE
