"""The part of a network that becomes GP layers: Linear, activation, Linear, …, activation, Linear at its end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from actgp import checks
from actgp.activations import GELU, Activation, ReLU, Softplus, Swish, Tanh

IGNORED = (nn.Dropout, nn.AlphaDropout, nn.Identity)
ACTIVATIONS: dict[type[nn.Module], Callable[[float], Activation]] = {
    nn.ReLU: lambda beta: ReLU(),
    nn.Softplus: Softplus,
    nn.SiLU: Swish,
    nn.GELU: GELU,
    nn.Tanh: Tanh,
}
REMEDY = f"use {', '.join(kind.__name__ for kind in ACTIVATIONS)} between the Linear layers of the head"


@dataclass(frozen=True)
class Dense:
    """x ↦ W x + b, in float64."""

    W: Float64[Tensor, "H D"]
    b: Float64[Tensor, " H"]

    def __call__(self, X: Float64[Tensor, "N D"]) -> Float64[Tensor, "N H"]:
        """W x + b for each row."""
        return X @ self.W.T + self.b


@dataclass(frozen=True)
class Head:
    """x ↦ W_L σ_L(… σ_1(W_0 x + b_0) …) + b_L, a float64 copy that does not follow the network.

    Attributes:
        dense: L + 1 linear maps.
        activations: L activations, as modules.
    """

    dense: tuple[Dense, ...]
    activations: tuple[nn.Module, ...]

    @property
    def input_dim(self) -> int:
        """The columns that the first linear map takes."""
        return self.dense[0].W.shape[1]

    @property
    def num_outputs(self) -> int:
        """The rows of the last linear map."""
        return len(self.dense[-1].W)

    def __call__(self, X: Float64[Tensor, "N D"]) -> Float64[Tensor, "N P"]:
        """The head's outputs."""
        return self.after(0, self.dense[0](X))

    def after(self, depth: int, Z: Float64[Tensor, "N H"]) -> Float64[Tensor, "N P"]:
        """The outputs, as a function of what enters activation number `depth`."""
        for activation, dense in zip(self.activations[depth:], self.dense[depth + 1 :], strict=True):
            Z = dense(activation(Z))
        return Z


@dataclass(frozen=True)
class Tail:
    """Where the head begins in a chain of modules, and what was met on the way from its end.

    Attributes:
        start: The index of the head's first Linear.
        head: The head.
        ignored: Names of the modules in it that do nothing in evaluation mode.
        stopped_by: Why the chain's front is no part of the head; empty where there is none.
    """

    start: int
    head: Head
    ignored: tuple[str, ...]
    stopped_by: str


def _is_linear(module: nn.Module) -> bool:
    """A Linear, also a parametrised one, but none with a forward of its own."""
    return isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward


def find_tail(chain: Sequence[nn.Module]) -> Tail:
    """The longest Linear (activation Linear)⁺ at the end of a chain of modules, refused where there is none."""
    kept: list[tuple[int, nn.Module]] = []
    ignored: list[tuple[int, str]] = []
    stopped_by = ""
    for i in reversed(range(len(chain))):
        module = chain[i]
        if isinstance(module, IGNORED):
            ignored.append((i, type(module).__name__))
            continue
        linear_next = len(kept) % 2 == 0  # from the end: Linear, activation, Linear, …
        if not (_is_linear(module) if linear_next else type(module) in ACTIVATIONS):
            stopped_by = _reason(module, linear_next)
            break
        kept.append((i, module))
    if not kept:
        last = next((type(module).__name__ for module in reversed(chain) if not isinstance(module, IGNORED)), "nothing")
        raise ValueError(
            f"the network must end in a Linear layer, got {last}; remove what follows it (a softmax or a sigmoid is "
            "the likelihood's part), or pass an nn.Sequential that ends in a Linear"
        )
    if len(kept) % 2 == 0:  # an activation without a Linear before it: the front keeps it
        kept.pop()
    if len(kept) < 3:
        found = f"; what comes before the last Linear: {stopped_by}" if stopped_by else ""
        raise ValueError(
            f"the network must have a hidden activation before its last Linear, got a linear head{found}; {REMEDY}"
        )
    start = kept[-1][0]
    modules = [module for _, module in reversed(kept)]
    dense = tuple(_dense(module) for module in modules[::2])
    copies = tuple(_activation_copy(module) for module in modules[1::2])
    return Tail(start, Head(dense, copies), tuple(name for i, name in reversed(ignored) if i > start), stopped_by)


def counterpart(module: nn.Module, sharpness: float) -> Activation:
    """The actgp activation of a torch activation, with a sharpness of its own (ReLU has none)."""
    return ACTIVATIONS[type(module)](sharpness)


def _reason(module: nn.Module, linear_next: bool) -> str:
    name = type(module).__name__
    if linear_next:
        return f"{name} stands where a Linear would have to"
    if isinstance(module, nn.Linear):
        return "Linear follows Linear without an activation"
    return f"{name} is not one of the activations {', '.join(kind.__name__ for kind in ACTIVATIONS)}"


def _dense(module: nn.Module) -> Dense:
    weight, bias = module.weight, module.bias
    W: Tensor = checks.tensor(weight, "a Linear's weight")  # type: ignore[arg-type]
    b = torch.zeros(len(W), dtype=W.dtype, device=W.device) if bias is None else bias
    for name, values in (("weight", W), ("bias", b)):
        if not torch.isfinite(values).all():  # type: ignore[arg-type]
            raise ValueError(
                f"the network's weights must be finite, got NaN or infinity in the {name} of a Linear of shape "
                f"{list(W.shape)}; train it again, with a lower learning rate"
            )
    return Dense(W.detach().double().clone(), b.detach().double().clone())  # type: ignore[operator]


def _activation_copy(module: nn.Module) -> nn.Module:
    """A copy that never writes into its input."""
    if isinstance(module, nn.Softplus):
        return nn.Softplus(module.beta, module.threshold)
    if isinstance(module, nn.GELU):
        return nn.GELU(module.approximate)
    return type(module)()
