"""Checks at the public border: each error says what was expected, what came, and what to do."""

import operator
from collections.abc import Iterable
from math import isfinite
from typing import SupportsIndex, TypeVar

import torch
from torch import Tensor

from actgp.several import Inputs, parts_of_inputs

T = TypeVar("T")


def integer(value: SupportsIndex, name: str, *, minimum: int) -> int:
    """Returns `value` as an int that is at least `minimum`."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}; pass a number such as {minimum}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} must be an integer, got {value!r} of type {type(value).__name__}; "
            f"pass a whole number such as {minimum}"
        ) from None
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {number}; raise it to {minimum} or more")
    return number


def real(value: float, name: str, *, example: float = 1.0) -> float:
    """Returns `value` as a float."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be a number, got {value!r} of type {type(value).__name__}; pass e.g. {example}"
        ) from None


def positive(value: float, name: str) -> float:
    """Returns `value` as a finite float above zero."""
    number = real(value, name)
    if not 0.0 < number < float("inf"):
        raise ValueError(f"{name} must be positive and finite, got {number}; pass e.g. 1.0")
    return number


def levels(values: Iterable[float]) -> list[float]:
    """Returns `values` as floats between 0 and 1."""
    numbers = [real(value, "a level", example=0.95) for value in values]
    for number in numbers:
        if not 0.0 < number < 1.0:
            raise ValueError(f"levels must lie between 0 and 1, got {number}; pass e.g. [0.05, 0.5, 0.95]")
    return numbers


def choice(value: T, name: str, options: Iterable[T]) -> T:
    """Returns `value` if it is one of `options`."""
    known = list(options)
    if value not in known:
        raise ValueError(f"{name} must be one of {known}, got {value!r}; choose one of those")
    return value


def tensor(value: Tensor, name: str) -> Tensor:
    """Returns `value` if it is a floating-point tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor, got {type(value).__name__}; convert it with torch.as_tensor({name})"
        )
    if value.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"{name} must be float32 or float64, got {value.dtype}; convert it with {name}.float() or {name}.double()"
        )
    return value


def finite(value: Tensor, name: str) -> Tensor:
    """Returns `value` if it holds neither NaN nor infinity."""
    if isfinite(value.sum().item()):  # a sum is finite only if all its terms are; if it overflows, look closer
        return value
    bad = ~torch.isfinite(value)
    if bad.any():
        where = tuple(int(i) for i in bad.nonzero()[0])
        raise ValueError(
            f"{name} must be finite, got {int(bad.sum())} NaN or infinite values, the first at {where}; "
            "drop or impute those rows"
        )
    return value


def measurable(value: Tensor, name: str) -> Tensor:
    """Returns `value` if the squares of its entries can be summed in its precision."""
    largest, limit = value.abs().max().item(), (torch.finfo(value.dtype).max / value.numel()) ** 0.5
    if largest > limit:
        raise ValueError(
            f"{name} must be at most {limit:.1g} in size, so that its squares can be summed in {value.dtype}, got "
            f"{largest:.3g}; standardise {name}"
        )
    return value


def predicted(mean: Tensor, X: Tensor | Inputs) -> Tensor:
    """Returns the means [S, N, P] of a prediction at X, if they are finite."""
    if not isfinite(mean.sum().item()) and not torch.isfinite(mean).all():
        row = int((~torch.isfinite(mean)).nonzero()[0, 1])
        largest = max(values[row].abs().max().item() for values in parts_of_inputs(X))
        raise ValueError(
            f"predictions must be finite, got NaN or infinity at row {row} of X, whose entries are up to "
            f"{largest:.3g} in size; standardise X, or, if the model's parameters are not finite, "
            "train it again"
        )
    return mean


def precision(X: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """Returns `X` if it has the precision of a model's parameters."""
    dtypes = {parameter.dtype for parameter in parameters}
    if dtypes != {X.dtype}:
        names = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
        raise TypeError(
            f"X must have the precision of the model, {names}, got {str(X.dtype).removeprefix('torch.')}; "
            "convert one of them, e.g. model.double() or X.float()"
        )
    return X


def inputs(X: Tensor, input_dim: int, name: str = "X") -> Tensor:
    """Returns `X` if it is a finite floating-point matrix of at least one row and `input_dim` columns."""
    tensor(X, name)
    if X.ndim != 2:
        raise ValueError(
            f"{name} must have shape [N, {input_dim}], got {list(X.shape)}; "
            "for a single column use X[:, None], for a single row X[None, :]"
        )
    if X.shape[0] == 0:
        raise ValueError(f"{name} must have at least one row, got shape {list(X.shape)}; pass some data")
    if X.shape[1] != input_dim:
        raise ValueError(
            f"{name} must have {input_dim} columns, got {X.shape[1]}; "
            f"select those columns, or build the kernel with input_dim={X.shape[1]}"
        )
    return finite(X, name)


def squeezed(outputs: Tensor) -> Tensor:
    """[N, P] as users see it: [N] for one output."""
    return outputs.squeeze(-1) if outputs.shape[-1] == 1 else outputs
