"""A student as JavaScript without any library: `javascript`. It predicts one row at a time, in double precision.

torch.export takes the student apart into a list of plain operations on one row. What depends on no input is computed
here; the rest is written as data, which the short program in `student.js` runs.
"""

import base64
import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx

from actgp.distil.export import quiet
from actgp.distil.outputs import Classes
from actgp.distil.student import Student

RUNTIME = Path(__file__).with_name("student.js")
MIXED = ("weights", "means", "variances")  # [K, N, P]; all other outputs are [N, P]
SAME = ("abs", "add", "div", "exp", "ge", "gt", "le", "log", "lt", "maximum", "minimum", "mul", "neg", "pow", "sigmoid")
OWN = {name: name for name in (*SAME, "sign", "sqrt", "sub", "tanh", "where")}  # as JavaScript calls them
OWN |= {"mm": "product", "bmm": "product", "cat": "joined"}
VIEWS = ("view", "unsqueeze", "squeeze", "clone", "_to_copy", "alias", "_unsafe_view", "reshape", "detach")
STRIDED = ("select", "slice", "permute", "transpose", "t", "expand", "split_with_sizes", "split")


def javascript(student: Student, name: str = "student") -> str:
    """The source of a script that defines a constant `name` with methods `predict`, `interval` and `density`.

    `student.predict([x₁, …, x_D])` gives an object whose names are those of `Normals`, and `std`, or those of
    `Classes`. Each is an array with a number for each output, or class; `weights`, `means` and `variances` are arrays
    of such arrays, one for each normal; of targets with a long tail, whose T is in `tail`, they are those of T(y).
    `student.interval(said, 0.95)` gives `lower` and `upper`, of what `predict` has said, and `student.density(said, y)`
    the density at y of the first output. `student.numInputs` is D. A NaN gives NaN, another number of columns an Error.

    Args:
        student: What `distill` gives, without a backbone.
        name: Of the constant.

    Example:
        >>> import actgp, torch
        >>> from actgp.distil import javascript
        >>> model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=8)
        >>> student = actgp.distill(model, torch.rand(50, 2), num_places=100, num_steps=10)  # doctest: +SKIP
        >>> page = f"<script>{javascript(student)}</script>"  # doctest: +SKIP
    """
    if not isinstance(student, Student) or student.backbone is not None:
        got = "one with a backbone" if isinstance(student, Student) else type(student).__name__
        raise TypeError(f"student must be a student without a backbone, got {got}; use actgp.distill, or actgp.export")
    program = _Program(student)
    runtime = RUNTIME.read_text(encoding="utf-8")
    return f"const {name} = (() => {{\n{runtime}\nreturn makeStudent({json.dumps(program.described())});\n}})();\n"


class _Program:
    """The operations of a student, by number: constants, the input, and what each step makes."""

    def __init__(self, student: Student) -> None:
        centre = student.features.x.centre
        row = torch.zeros(1, len(centre), dtype=centre.dtype)
        with torch.no_grad(), quiet():
            # Not strictly, which old releases of torch are by default: their compiler does not take students.
            exported = torch.export.export(student, (row,), strict=False).run_decompositions()
            said = student(row)
        signature = exported.graph_signature
        self.held = {  # constants, by the names of their nodes
            spec.arg.name: exported.state_dict.get(spec.target, exported.constants.get(spec.target))
            for spec in signature.input_specs
            if spec.target is not None
        }
        self.numbers: dict[str, int] = {}
        self.constants: dict[int, Tensor] = {}
        self.steps: list[list[Any]] = []
        self.count, self.num_inputs = 0, len(centre)
        for node in exported.graph.nodes:
            if node.op == "placeholder" and node.name not in self.held:
                self.input = self.numbers[node.name] = self._next()
            elif node.op == "call_function" and "_assert" not in str(node.target):
                self._add(node)
            elif node.op == "output":
                self.outputs = list(zip(said._fields, (self._number(arg) for arg in node.args[0]), strict=True))
        self.mixed = () if isinstance(said, Classes) else MIXED

    def described(self) -> dict[str, Any]:
        """What JavaScript reads."""
        used = {place for step in self.steps for place in step[2]} | {place for _, place in self.outputs}
        constants = [[i, list(v.shape), *_encoded(v)] for i, v in self.constants.items() if i in used]
        own = {"input": self.input, "numInputs": self.num_inputs, "mixed": self.mixed}
        return own | {"constants": constants, "steps": self.steps, "outputs": self.outputs}

    def _next(self) -> int:
        self.count += 1
        return self.count - 1

    def _number(self, value: Any) -> int:
        """Of a node, or of a number or tensor, which becomes a constant."""
        if isinstance(value, fx.Node) and value.name in self.numbers:
            return self.numbers[value.name]
        place = self._next()
        if isinstance(value, fx.Node):
            self.numbers[value.name], value = place, self.held[value.name]
        self.constants[place] = torch.as_tensor(value)
        return place

    def _numbers(self, *values: Any) -> list[int]:
        return [self._number(value) for value in values]

    def _step(self, name: str, inputs: list[int], shape: list[int], options: list[Any] | None = None) -> int:
        self.steps.append([name, place := self._next(), inputs, shape, options])
        return place

    def _add(self, node: fx.Node) -> None:
        arguments = fx.node.map_arg((node.args, node.kwargs), lambda each: self.held.get(each.name, each))
        if not any(each.name not in self.held for each in node.all_input_nodes):
            args, kwargs = arguments
            assert callable(node.target)
            self.held[node.name] = node.target(*args, **kwargs)
            return
        name = getattr(node.target, "__name__", str(node.target)).split(".")[0]
        shape = [list(each.shape) for each in _several(node.meta["val"])]
        if node.target is operator.getitem:
            source, which = node.args
            assert isinstance(source, fx.Node)
            self.numbers[node.name] = self.numbers[f"{source.name}[{which}]"]
        elif name in ("split_with_sizes", "split"):
            for i, (place, each) in enumerate(zip(self._strided(node), shape, strict=True)):
                self.numbers[f"{node.name}[{i}]"] = self._step("strided", self._numbers(node.args[0]), each, place)
        else:
            self.numbers[node.name] = self._emitted(name, node, shape[0])

    def _emitted(self, name: str, node: fx.Node, shape: list[int]) -> int:
        """The number of what one operation gives; those that JavaScript does not have are made of others."""
        if name in OWN:
            numbers, options = self._numbers(*_several(node.args[0] if name == "cat" else node.args)), None
            if name == "cat":
                dim: Any = node.args[1] if len(node.args) > 1 else 0
                options = [torch.Size(shape[: dim % len(shape)]).numel()]
            elif (alpha := node.kwargs.get("alpha", 1)) != 1:
                numbers[1] = self._step("mul", [numbers[1], self._number(alpha)], _shape(node.args[1]))
            return self._step(OWN[name], numbers, shape, options)
        if name in VIEWS:
            return self._step("view", self._numbers(node.args[0]), shape)
        if name in STRIDED:
            return self._step("strided", self._numbers(node.args[0]), shape, self._strided(node)[0])
        if name in ("sum", "mean", "amax", "amin", "linalg_vector_norm", "_softmax"):
            return self._reduction(name, node, shape)
        return self._made(name, node, shape)

    def _made(self, name: str, node: fx.Node, shape: list[int]) -> int:
        first, *others = self._numbers(*(0.0 if each is None else each for each in node.args))
        if name == "addmm":
            return self._step("add", [first, self._step("product", others, shape)], shape)
        if name == "rsqrt":
            return self._step("div", [self._number(1.0), self._step("sqrt", [first], shape)], shape)
        if name not in ("clamp", "clamp_min", "clamp_max"):
            raise TypeError(
                f"a student must consist of operations that JavaScript has here, got {name}; use actgp.export"
            )
        ends = ["minimum"] if name == "clamp_max" else ["maximum", "minimum"]
        for end, number, given in zip(ends, others, node.args[1:], strict=False):
            first = first if given is None else self._step(end, [first, number], shape)
        return first

    def _reduction(self, name: str, node: fx.Node, shape: list[int]) -> int:
        source, own = self._number(node.args[0]), _shape(node.args[0])
        dims = node.args[2 if name == "linalg_vector_norm" else 1] if len(node.args) > 1 else None
        dims = list(range(len(own))) if not dims and dims != 0 else [d % len(own) for d in _several(dims)]
        kept = [1 if d in dims else n for d, n in enumerate(own)]
        if name == "_softmax":
            largest = self._step("amax", [source], kept, [kept])
            powers = self._step("exp", [self._step("sub", [source, largest], own)], own)
            return self._step("div", [powers, self._step("sum", [powers], kept, [kept])], own)
        if name == "linalg_vector_norm":
            assert len(node.args) < 2 or node.args[1] == 2
            squares = self._step("mul", [source, source], own)
            return self._step("sqrt", [self._step("sum", [squares], shape, [kept])], shape)
        if name == "mean":
            count = self._number(torch.Size(own).numel() / max(1, torch.Size(kept).numel()))
            return self._step("div", [self._step("sum", [source], shape, [kept]), count], shape)
        return self._step(name, [source], shape, [kept])

    def _strided(self, node: fx.Node) -> list[list[Any]]:
        """Where what is made of a contiguous input begins in it, and by which steps it is read: PyTorch says so."""
        source, *rest = node.args
        own = torch.empty(_shape(source))
        made: Callable[..., Any] = node.target  # type: ignore[assignment]
        return [[each.storage_offset(), list(each.stride())] for each in _several(made(own, *rest, **node.kwargs))]


def _several(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _shape(value: Any) -> list[int]:
    return list(value.meta["val"].shape) if isinstance(value, fx.Node) else list(torch.as_tensor(value).shape)


def _encoded(values: Tensor) -> tuple[bool, str]:
    """Whether values are single precision, and their bytes, in base64."""
    single = values.dtype == torch.float32
    numbers = values.detach().cpu().contiguous().to(torch.float32 if single else torch.float64).numpy()
    return single, base64.b64encode(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()).decode()
