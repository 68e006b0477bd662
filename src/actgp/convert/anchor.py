"""A trained network in front of a GP whose prior mean it is: what it gives, and what the GP sees.

    h(x) = [z(x), μ(x)],     f(x) = μ(x) + g(z(x)),     g ~ GP(0, k)

μ is the network itself. z holds the inputs of the network, where these are vectors, and the features that enter its
last Linear layer: what it takes for alike. Each of both parts is centred, its columns are brought to the same spread,
and it is scaled to E‖z‖² = ρ².
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp import checks

RADIUS = 2.0  # ρ
SMALLEST_SPREAD = 1e-6  # of a column, relative to the largest: below it a column is constant
ROWS = 512  # that go through the network at a time
SOME_ROWS = 32
TOLERANCE = 1e-3  # of a row's outputs, relative to their size, if it comes alone instead of in a batch

Select = Callable[[Any], Tensor]


class Outputs(NamedTuple):
    """What a network gives.

    Attributes:
        outputs: Its outputs.
        features: What enters its last Linear layer, if that is known.
        flat: Whether it gives [N] rather than [N, 1].
    """

    outputs: Float[Tensor, "N P"]
    features: Float[Tensor, "N H"] | None
    flat: bool


class Anchor(nn.Module):
    """x ↦ [z, μ]: what `GPLayer(prior_mean="carried")` takes.

    Args:
        network: The network, in evaluation mode.
        head: The name of its last Linear layer; None where there is none to be seen.
        select: What takes the outputs out of what the network gives; None for a network that gives them themselves.
        sees_inputs: Whether z holds the inputs.
        centre: Of z before it is centred and scaled.
        scale: What its columns are multiplied by.
    """

    centre: Tensor
    scale: Tensor

    def __init__(
        self,
        network: nn.Module,
        head: str | None,
        select: Select | None,
        sees_inputs: bool,
        centre: Float[Tensor, " D"],
        scale: Float[Tensor, " D"],
    ) -> None:
        super().__init__()
        self.network, self.head, self.select, self.sees_inputs = network, head, select, sees_inputs
        self.register_buffer("centre", centre)
        self.register_buffer("scale", scale)

    def forward(self, X: Tensor) -> Float[Tensor, "N D+P"]:
        """[z, μ] for each row."""
        found = run(self.network, X, self.head, self.select)
        z = torch.cat(seen(X, found, self.sees_inputs), dim=1).to(self.scale)
        return torch.cat([(z - self.centre) * self.scale, found.outputs.to(self.scale)], dim=1)


def run(network: nn.Module, X: Tensor, head: str | None, select: Select | None) -> Outputs:
    """The outputs at a batch, and the features before the layer that is named `head`."""
    taken: list[Tensor] = []
    hook = None
    if head is not None:
        hook = network.get_submodule(head).register_forward_pre_hook(lambda _, inputs: taken.append(inputs[0]))
    try:
        given = network(X)
    finally:
        if hook is not None:
            hook.remove()
    outputs = given if select is None else select(given)
    if not isinstance(outputs, Tensor) or outputs.ndim not in (1, 2) or len(outputs) != len(X):
        got = f"shape {list(outputs.shape)}" if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(
            f"the network must give a tensor [N, P] or [N], here {len(X)} rows, got {got}; pass select=, a function "
            "that takes the outputs out of what the network gives, e.g. lambda given: given[0]"
        )
    return Outputs(outputs.reshape(len(X), -1), taken[-1] if taken else None, outputs.ndim == 1)


def find_head(network: nn.Module, X: Tensor) -> str | None:
    """The name of the Linear layer that is called last, if it is called once, with one row of features for each row."""
    called: list[str] = []
    fits: dict[str, bool] = {}

    def watch(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def note(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            called.append(name)
            fits[name] = len(inputs) == 1 and inputs[0].ndim == 2 and len(inputs[0]) == len(X)

        return note

    hooks = [
        module.register_forward_pre_hook(watch(name))
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear)
    ]
    try:
        network(X)
    finally:
        for hook in hooks:
            hook.remove()
    last = called[-1] if called else None
    return last if last is not None and called.count(last) == 1 and fits[last] else None


def seen(X: Tensor, found: Outputs, sees_inputs: bool) -> list[Float[Tensor, "N _"]]:
    """The parts of z before they are centred and scaled; the outputs themselves where there is nothing else."""
    parts = [X] if sees_inputs else []
    if found.features is not None:
        parts.append(found.features)
    return parts or [found.outputs]


def scaling(parts: Sequence[Float[Tensor, "N _"]]) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
    """Centre and scale of each column: of like spread within a part, whose E‖z‖² is ρ²."""
    centres, scales = [], []
    for part in parts:
        sd = part.double().std(0, correction=0)
        varies = sd > SMALLEST_SPREAD * sd.max().clamp_min(torch.finfo(torch.float64).tiny)
        count = varies.sum().clamp_min(1).double()
        centres.append(part.double().mean(0))
        scales.append(torch.where(varies, RADIUS / (count.sqrt() * sd), 0.0))
    return torch.cat(centres), torch.cat(scales)


def check_network(network: nn.Module, X: Tensor, select: Select | None) -> None:
    """Refuses a network whose outputs are not a function of each row by itself."""
    rows = X[:SOME_ROWS]
    first, again = (run(network, rows, None, select).outputs for _ in range(2))
    if not torch.isfinite(first).all():
        raise ValueError(
            "the network's outputs must be finite, got NaN or infinity among those of the first rows of X; look for "
            "inputs that are not scaled as in training, or train it again"
        )
    if not torch.equal(first, again):
        raise ValueError(
            "the network must give the same outputs twice, got others the second time, by up to "
            f"{(first - again).abs().max().item():.3g}; switch off what is random in evaluation mode, such as dropout "
            "that is called as a function without training=self.training"
        )
    alone = torch.cat([run(network, rows[i : i + 1], None, select).outputs for i in range(min(3, len(rows)))])
    difference = (alone - first[: len(alone)]).abs().max().item()
    if difference > TOLERANCE * first.abs().max().clamp_min(torch.finfo(first.dtype).tiny).item():
        raise ValueError(
            "the network must give a row the same outputs whatever the rows beside it are, got a difference of "
            f"{difference:.3g} for rows that came alone; switch off statistics of the batch in evaluation mode"
        )


@torch.no_grad()
def run_all(network: nn.Module, X: Tensor, head: str | None, select: Select | None) -> Outputs:
    """As `run`, some rows at a time."""
    parts = [run(network, part, head, select) for part in X.split(ROWS)]
    outputs = checks.finite(torch.cat([part.outputs for part in parts]), "the network's outputs")
    features = [part.features for part in parts if part.features is not None]
    return Outputs(outputs, torch.cat(features) if features else None, parts[0].flat)
