"""A network cut in two: the front that stays as it is, the backbone, and the head that becomes GP layers.

An nn.Sequential is cut between its modules, nested ones included. Any other module is traced by `torch.fx`, and the
graph is cut where the chain of Linear layers and activations at its end begins.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from actgp.weights.head import IGNORED, Head, find_tail

FUNCTIONS: dict[Any, Callable[..., nn.Module | None]] = {
    torch.relu: nn.ReLU,
    nn.functional.relu: lambda inplace=False: nn.ReLU(),
    "relu": nn.ReLU,
    torch.tanh: nn.Tanh,
    nn.functional.tanh: nn.Tanh,
    "tanh": nn.Tanh,
    nn.functional.silu: lambda inplace=False: nn.SiLU(),
    nn.functional.gelu: lambda approximate="none": nn.GELU(approximate),
    nn.functional.softplus: nn.Softplus,
    nn.functional.dropout: lambda p=0.5, training=True, inplace=False: None if training else nn.Dropout(p),
}


class Split(NamedTuple):
    """A network as backbone and head.

    Attributes:
        backbone: The front, a copy in evaluation mode; None where the head is the whole network.
        head: The head.
        ignored: What does nothing in evaluation mode and was left out.
        reason: Why the front stays as it is; empty without a backbone.
        dtype: The network's precision.
    """

    backbone: nn.Module | None
    head: Head
    ignored: tuple[str, ...]
    reason: str
    dtype: torch.dtype


def split(network: nn.Module) -> Split:
    """Cuts a network into backbone and head; the network itself is not touched."""
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"network must be a torch.nn.Module, got {type(network).__name__}; wrap the function in a module"
        )
    dtype = _precision(network)
    if _is_plain(network) or isinstance(network, nn.Linear):
        modules = _flatten(network)
        tail = find_tail(modules)
        front = modules[: tail.start]
        idle = all(isinstance(module, IGNORED) for module in front)
        backbone = None if idle else nn.Sequential(*copy.deepcopy(front)).eval()
        return _result(backbone, tail.head, tail.ignored, tail.stopped_by, dtype)
    return _split_graph(network, dtype)


def _result(backbone: nn.Module | None, head: Head, ignored: tuple[str, ...], reason: str, dtype: torch.dtype) -> Split:
    return Split(backbone, head, ignored, "" if backbone is None else reason, dtype)


def _precision(network: nn.Module) -> torch.dtype:
    lazy = [p for p in network.parameters() if isinstance(p, nn.parameter.UninitializedParameter)]
    if lazy:
        raise ValueError(
            "every Linear must have weights, got an uninitialised lazy module; run the network once on some data"
        )
    dtypes = {p.dtype for p in network.parameters()}
    if len(dtypes) != 1 or not dtypes <= {torch.float32, torch.float64}:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)) or "no parameters"
        raise TypeError(
            f"the network's parameters must all be float32 or all float64, got {names}; convert it with "
            "network.float() or network.double()"
        )
    return dtypes.pop()


def _is_plain(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _flatten(module: nn.Module) -> list[nn.Module]:
    """The modules of nested Sequentials, in order."""
    if not _is_plain(module):
        return [module]
    return [inner for child in module.children() for inner in _flatten(child)]


def _split_graph(network: nn.Module, dtype: torch.dtype) -> Split:
    name = type(network).__name__
    remedy = "pass an nn.Sequential of its parts, in order"
    try:
        traced = fx.symbolic_trace(copy.deepcopy(network).eval())
    except Exception as error:
        raise ValueError(
            f"{name} must be a module that torch.fx can trace, got {type(error).__name__}: {error}; {remedy}"
        ) from error
    graph = traced.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder" and node.users]
    output = next(node for node in graph.nodes if node.op == "output")
    last = output.args[0]
    if len(inputs) != 1 or not isinstance(last, fx.Node):
        raise ValueError(
            f"{name} must take one tensor and return one, got {len(inputs)} inputs, {type(last).__name__} as output; "
            f"{remedy}"
        )
    nodes, modules = _chain(traced, last)
    if not modules:
        raise ValueError(f"{name} must end in a Linear layer, got {last.op} {last.target}; {remedy}")
    tail = find_tail(modules)
    entry = nodes[tail.start].args[0]
    if not isinstance(entry, fx.Node) or entry.op == "placeholder":
        return _result(None, tail.head, tail.ignored, "", dtype)
    output.args = (entry,)
    graph.eliminate_dead_code()
    traced.delete_all_unused_submodules()
    traced.recompile()
    target = getattr(entry.target, "__name__", entry.target)
    reason = tail.stopped_by or f"{entry.op} {target} is no part of a chain of Linear layers and activations"
    return _result(traced, tail.head, tail.ignored, reason, dtype)


def _chain(traced: fx.GraphModule, last: fx.Node) -> tuple[list[fx.Node], list[nn.Module]]:
    """The nodes that lead to the output one by one, each used by the next alone, from the first to the last."""
    nodes: list[fx.Node] = []
    modules: list[nn.Module] = []
    node: Any = last
    while isinstance(node, fx.Node) and len(node.users) == 1:
        module = _module_of(traced, node)
        if module is None:
            break
        nodes.insert(0, node)
        modules.insert(0, module)
        node = node.args[0] if node.args else None
    return nodes, modules


def _module_of(traced: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    """The module that does what a node does, or None where the node is not of one tensor, or unknown."""
    tensors = [argument for argument in (*node.args, *node.kwargs.values()) if isinstance(argument, fx.Node)]
    if len(tensors) != 1 or not node.args or node.args[0] is not tensors[0]:
        return None
    if node.op == "call_module":
        return traced.get_submodule(str(node.target))
    squeezes = node.target in (torch.squeeze, "squeeze") and node.args[1:] in ((-1,), (1,))
    if squeezes and not node.kwargs:  # [N, 1] to [N], as the deep GP's mean does by itself
        return nn.Identity()
    if node.op in ("call_function", "call_method") and node.target in FUNCTIONS:
        return FUNCTIONS[node.target](*node.args[1:], **node.kwargs)
    return None
