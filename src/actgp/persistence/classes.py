"""Which classes can be saved, by name: a file names classes, and only these are ever built.

A class of ours says so itself, by `@savable` and its `config()`: the arguments of its constructor, except sizes that
are seen from its tensors, and `active_dims`, which all kernels have. An argument may be plain, a list, a tensor, or a
part that can be saved itself. Its key is the name of the argument; where the part has another place in the module, the
key is that place, and ends in the name.

`SIZES` names the axes of tensors, so that nothing is allocated which a file does not hold: an axis is named after an
argument, or after a property of one ("features.num_inducing"), with what it has more ("input_dim + 1"). An argument
that `config()` leaves out is given the size that the tensor has; others must have that size; where one is None, there
is no such tensor. If the argument is the tensor itself, it is given zeros until the state follows.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar, Union, get_args, get_origin

from torch import Tensor

Sizes = Mapping[str, tuple[str | int, ...]]
C = TypeVar("C", bound=type)

VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
PLAIN: dict[Any, tuple[type, ...]] = {int: (int,), float: (float, int), str: (str,)}


class DescriptionError(ValueError):
    """A description from which nothing can be built."""


def refuse(place: str, expected: str, got: str) -> NoReturn:
    """Raises the error that says what a description lacks."""
    raise DescriptionError(
        f"the description of {place or 'the model'} must have {expected}, got {got}; write it with the model's save"
    )


def refuse_to_save(place: str, options: Iterable[str], got: object) -> NoReturn:
    """Raises the error for what a file cannot hold."""
    raise TypeError(
        f"to be saved, {place or 'the model'} must be one of {sorted(options)}, got {type(got).__name__}, whose code "
        "no file holds; keep model.state_dict(), and load it into the model built anew by your own code"
    )


class Savable(NamedTuple):
    """How things of a class are saved.

    Attributes:
        cls: The class.
        config: Gives the arguments that a file holds.
        build: Builds a thing from its arguments.
        hints: The annotations of the arguments.
        required: The arguments that have no default.
        sizes: `SIZES`.
    """

    cls: type
    config: Callable[[Any], Mapping[str, Any]]
    build: Callable[..., Any]
    hints: Mapping[str, Any]
    required: frozenset[str]
    sizes: Sizes


_REGISTRY: dict[str, Savable] = {}


def register(saved: Savable) -> None:
    """Makes a class savable that cannot say so itself."""
    if _REGISTRY.setdefault(saved.cls.__name__, saved) is not saved:
        raise ValueError(f"the name of a savable class must be its own, got {saved.cls.__name__} twice; rename one")


def savable(cls: C) -> C:
    """Makes a class savable, by its `config()` and `SIZES`; of a dataclass the fields are the config."""
    config = vars if is_dataclass(cls) else cls.config  # type: ignore[attr-defined]
    arguments = [argument for argument in inspect.signature(cls).parameters.values() if argument.kind not in VARIABLE]
    hints = {argument.name: argument.annotation for argument in arguments}
    required = frozenset(argument.name for argument in arguments if argument.default is argument.empty)
    register(Savable(cls, config, cls, hints, required, getattr(cls, "SIZES", {})))
    return cls


def savable_as(thing: object) -> Savable | None:
    """How a thing is saved; None where its class, which may be derived from a savable one, is code."""
    found = _REGISTRY.get(type(thing).__name__)
    return found if found is not None and found.cls is type(thing) else None


def savable_for(hint: Any) -> dict[str, Savable]:
    """The savable classes that an annotation allows, by name."""
    classes = tuple(option for option in options(hint) if isinstance(option, type))
    return {name: saved for name, saved in _REGISTRY.items() if issubclass(saved.cls, classes)}


def options(hint: Any) -> tuple[Any, ...]:
    """The members of a union; otherwise the annotation alone."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def items(hint: Any) -> Any | None:
    """What the items of a list must be; None where an annotation allows no list."""
    return next((get_args(option)[0] for option in options(hint) if get_origin(option) is Sequence), None)


def takes_tensor(hint: Any) -> bool:
    """Whether an argument may be a tensor."""
    return any(getattr(option, "array_type", option) is Tensor for option in options(hint))


def allows(hint: Any, value: object) -> bool:
    """Whether a plain value, a number, string, truth or None, fits an annotation."""
    if value is None or isinstance(value, bool):
        return type(value) in options(hint)
    return any(
        value in get_args(option) if get_origin(option) is Literal else isinstance(value, PLAIN.get(option, ()))
        for option in options(hint)
    )


def in_words(hint: Any) -> str:
    """An annotation in words."""
    for option in options(hint):
        if get_origin(option) is Literal:
            return f"one of {list(get_args(option))}"
    if (item := items(hint)) is not None:
        return f"of type list, of {getattr(item, '__name__', item)}"
    names = ("None" if option is type(None) else getattr(option, "__name__", str(option)) for option in options(hint))
    return f"of type {' or '.join(names)}"
