"""Likelihoods that models can be used with, and targets as each of them wants them, checked."""

import torch
from gpytorch.likelihoods import Likelihood
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.likelihoods.adapter import adapter_of


def supported(likelihood: Likelihood, num_outputs: int | None = None, input_dim: int | None = None) -> Likelihood:
    """Returns a likelihood of one latent function for each output, or of classes, with as many features as outputs.

    Noise that depends on the inputs of the last layer must have as many slopes as there are (`input_dim`).
    """
    adapter_of(likelihood).check_supported(num_outputs, input_dim)
    return likelihood


def targets(likelihood: Likelihood, y: Tensor, num_rows: int, num_outputs: int, dtype: torch.dtype) -> Tensor:
    """Y as [N] class labels (softmax) or as [N, P] values of the model's dtype (others, ordered labels too)."""
    if not isinstance(y, Tensor):
        raise TypeError(f"y must be a torch.Tensor, got {type(y).__name__}; convert it with torch.as_tensor(y)")
    if y.is_complex() or y.dtype == torch.bool:
        raise TypeError(f"y must hold real numbers or integer labels, got {y.dtype}; convert it with y.float()")
    if y.ndim not in (1, 2) or y.shape[0] != num_rows:
        raise ValueError(
            f"y must have shape [{num_rows}] or [{num_rows}, {num_outputs}], one row for each row of X, got "
            f"{list(y.shape)}; align y with X"
        )
    checks.finite(y, "y")
    return adapter_of(likelihood).outcomes(y, num_outputs, dtype)


def columns(y: Tensor, num_outputs: int, dtype: torch.dtype) -> Float[Tensor, "N P"]:
    """Values of P outputs."""
    values = (y.unsqueeze(-1) if y.ndim == 1 else y).to(dtype)
    if values.shape[1] != num_outputs:
        raise ValueError(
            f"y must have {num_outputs} columns, got {values.shape[1]}; select them, or build the model with "
            f"num_outputs={values.shape[1]}"
        )
    return values


def some(values: Tensor) -> list[float]:
    """A few of the values, to show in an error."""
    return [float(v) for v in values.reshape(-1).unique()[:6]]
