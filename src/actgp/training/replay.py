"""A recorded step, replayed operation by operation: no compiler, and hardly any Python.

At small sizes most of an eager step is not arithmetic, but automatic differentiation, the Python around operations, and
views of views. Of a recorded step (`recording`) there are left only its operations, in their order:

* a view is taken at once from the tensor that owns its memory, since all shapes and strides are known, and only once;
  those of parameters and constants are taken beforehand;
* operations are called by torch's own C functions, where a name in its table of operators has one.

The numbers are those of the recorded step, to the last bit. Should a C function mean something else by the name of
an operator, which its first call shows, operators are called by that name in their table.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload

RECORD_AFTER = 100  # steps with minibatches of one shape: recording takes as long as some hundred of them
NAMESPACES = (torch, torch._C._linalg, torch.Tensor)  # type: ignore[attr-defined]


def replayed(
    recorded: fx.GraphModule, parameters: Sequence[Tensor], inputs: Sequence[Tensor]
) -> Callable[..., Sequence[Tensor]]:
    """A function of the inputs, for these parameters, whatever their values will be.

    Args:
        recorded: A function of parameters and inputs.
        parameters: Whose memory the function will read each time.
        inputs: Like those that it will be given: with the same shapes, strides and places in their memory.
    """
    interpreter = fx.Interpreter(recorded, garbage_collect_values=False)
    with torch.no_grad():
        expected = interpreter.run(*parameters, *inputs)
    placeholders = [node for node in recorded.graph.nodes if node.op == "placeholder"]
    for by_c_functions in (True, False):
        lowering = Lowering(interpreter.env, placeholders[len(parameters) :], by_c_functions)
        for node in recorded.graph.nodes:
            lowering.add(node)
        function = partial(_below_autograd, lowering.function())
        if _gives(function, inputs, expected):
            return function
    return partial(recorded, *parameters)


def _below_autograd(function: Callable[..., Sequence[Tensor]], *inputs: Tensor) -> Sequence[Tensor]:
    """As without gradients, but operations do not even look whether one is wanted."""
    with torch._C._AutoDispatchBelowADInplaceOrView():
        return function(*inputs)


def _gives(function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    """Whether all operations of a function mean what was recorded; for that a few digits will do."""
    try:
        return all(map(_agree, function(*inputs), expected))
    except (TypeError, RuntimeError):  # a C function that takes other arguments
        return False


def _agree(found: Tensor, expected: Tensor) -> bool:
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return False
    finite = expected[expected.isfinite()].abs()
    largest = finite.max().item() if finite.numel() else 0.0
    return torch.allclose(found, expected, rtol=1e-4, atol=1e-4 * largest, equal_nan=True)


class Lowering:
    """A graph that is rewritten node by node.

    Args:
        values: The value of each node of the graph that is rewritten: they stay in memory until it is complete.
        inputs: Its placeholders that stay placeholders.
        by_c_functions: Whether operators are called by C functions of their names.
    """

    def __init__(self, values: dict[fx.Node, Any], inputs: Sequence[fx.Node], by_c_functions: bool) -> None:
        self.by_c_functions = by_c_functions
        self.values = values
        self.graph = fx.Graph()
        self.new: dict[fx.Node, fx.Node] = {}  # for old
        self.owners: dict[tuple[int, torch.dtype], fx.Node] = {}  # of memory, by what it holds
        self.tensors: dict[Hashable, fx.Node] = {}  # by memory and layout
        self.layouts: dict[fx.Node, Hashable] = {}  # of owners
        self.impure: set[fx.Node] = set()
        self.given: list[tuple[int, int, int]] = []  # memory of results, from where to where
        self.permanent = {_memory(value) for node, value in values.items() if node.op in ("placeholder", "get_attr")}
        for node in inputs:
            self._own(node, self.graph.placeholder(node.name))
        # What else is there from the beginning, parameters and constants, with all views of it.
        fixed = self.permanent - {memory for memory, _ in self.owners}
        self.fixed: list[Tensor] = []
        for value in values.values():
            if isinstance(value, Tensor) and _memory(value) in fixed and (layout := _layout(value)) not in self.tensors:
                self.tensors[layout] = self.graph.placeholder(f"fixed_{len(self.fixed)}")
                self.fixed.append(value)

    def add(self, node: fx.Node) -> None:
        """Rewrites the next node."""
        if node.op == "output":
            results: Any = node.args[0]
            self.graph.output([self._result(result) for result in results])
        elif isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            self.impure.add(self._called(node))
            if isinstance(value := self.values[node], Tensor):  # what it has changed
                self.new[node] = self.tensors[_layout(value)]
        elif node not in self.new:
            self._add_pure(node)

    def _add_pure(self, node: fx.Node) -> None:
        value = self.values[node]
        if not isinstance(value, Tensor):
            self._called(node)
        elif (layout := _layout(value)) in self.tensors:
            self.new[node] = self.tensors[layout]
        elif (owner := self.owners.get((_memory(value), value.dtype))) is not None:
            self.new[node] = self.tensors[layout] = self._view(owner, value)
        else:
            self._own(node, self._called(node))

    def _view(self, owner: fx.Node, value: Tensor) -> fx.Node:
        if value.ndim == 2 and _layout(value.T) == self.layouts[owner]:
            return self.graph.call_function(torch.Tensor.t, (owner,))  # half the time of the other
        return self.graph.call_function(
            torch.as_strided, (owner, tuple(value.shape), value.stride(), value.storage_offset())
        )

    def _result(self, node: fx.Node) -> fx.Node:
        """What is given away: memory that nothing else reads."""
        value, new = self.values[node], self.new[node]
        memory, start = _memory(value), value.storage_offset()
        end = start + 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
        taken = any(memory == other and start < last and first < end for other, first, last in self.given)
        if taken or memory in self.permanent:
            return self.graph.call_function(torch.clone, (new,))
        self.given.append((memory, start, end))
        return new

    def function(self) -> Callable[..., Sequence[Tensor]]:
        """Of the inputs."""
        self.graph.eliminate_dead_code(lambda node: node.op != "call_function" or node in self.impure)
        forward = fx.GraphModule(nn.Module(), self.graph).forward
        fixed = self.fixed
        return lambda *inputs: forward(*inputs, *fixed)

    def _own(self, node: fx.Node, new: fx.Node) -> None:
        value = self.values[node]
        layout = self.layouts[new] = _layout(value)
        self.new[node] = self.owners[_memory(value), value.dtype] = self.tensors[layout] = new

    def _called(self, node: fx.Node) -> fx.Node:
        new = self.new[node] = self.graph.node_copy(node, self.new.__getitem__)
        if self.by_c_functions and isinstance(node.target, OpOverload):
            new.target = _c_function(node.target)
        return new


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _layout(tensor: Tensor) -> Hashable:
    return _memory(tensor), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def _c_function(operator: OpOverload) -> Callable[..., Any]:
    """The C function of an operator's name, which is faster to call; the operator itself if there is none."""
    name = operator.overloadpacket.__name__
    if name == "_to_copy":
        return _copied
    in_place = name.endswith("_") and not name.startswith("_")  # some of torch's own return nothing
    for place in (torch.Tensor,) if in_place else NAMESPACES:
        if isinstance(found := getattr(place, name, None), BuiltinFunctionType | MethodDescriptorType):
            return found
    return operator


def _copied(tensor: Tensor, *, dtype: torch.dtype | None = None, **others: Any) -> Tensor:
    """In another precision, mostly; what else may be asked for goes through the operator."""
    if others or dtype in (None, tensor.dtype):
        return torch.ops.aten._to_copy(tensor, dtype=dtype, **others)
    return tensor.to(dtype)
