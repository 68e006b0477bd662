"""Targets as each likelihood wants them, checked."""

import torch
from gpytorch.likelihoods import (
    BernoulliLikelihood,
    BetaLikelihood,
    Likelihood,
    NegativeBinomialLikelihood,
    SoftmaxLikelihood,
)
from gpytorch.likelihoods.poisson_likelihood import PoissonLikelihood
from torch import Tensor

from actgp import checks
from actgp.likelihoods.ordinal import num_ordered_labels

COUNTS = (PoissonLikelihood, NegativeBinomialLikelihood)


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
    if isinstance(likelihood, SoftmaxLikelihood):
        return _labels(y, likelihood.num_classes)
    values = (y.unsqueeze(-1) if y.ndim == 1 else y).to(dtype)  # [N, P]
    if values.shape[1] != num_outputs:
        raise ValueError(
            f"y must have {num_outputs} columns, got {values.shape[1]}; select them, or build the model with "
            f"num_outputs={values.shape[1]}"
        )
    if isinstance(likelihood, BernoulliLikelihood) and not ((values == 0) | (values == 1)).all():
        raise ValueError(f"y must hold the labels 0 and 1, got {_some(values)}; map the two classes to 0 and 1")
    if isinstance(likelihood, COUNTS) and not ((values >= 0) & (values == values.round())).all():
        raise ValueError(f"y must hold counts 0, 1, 2, …, got {_some(values)}; round them, or use another likelihood")
    if isinstance(likelihood, BetaLikelihood) and not ((values > 0) & (values < 1)).all():
        raise ValueError(
            f"y must lie between 0 and 1, ends not included, got {_some(values)}; scale it, or use another likelihood"
        )
    C = num_ordered_labels(likelihood, num_outputs)
    if C is not None and not ((values >= 0) & (values < C) & (values == values.round())).all():
        raise ValueError(
            f"y must hold ordered labels from 0 to {C - 1}, got {_some(values)}; relabel, or build the likelihood with "
            "as many labels as there are"
        )
    return values


def _labels(y: Tensor, num_classes: int) -> Tensor:
    if y.ndim == 2 and y.shape[1] != 1:
        raise ValueError(
            f"y must hold one label for each row, got shape {list(y.shape)}; use y.argmax(1) for one-hot labels"
        )
    labels = y.reshape(-1)
    if not (labels == labels.round()).all():
        raise ValueError(
            f"y must hold integer labels from 0 to {num_classes - 1}, got {_some(labels)}; relabel, or use a Gaussian "
            "likelihood for real targets"
        )
    if not ((labels >= 0) & (labels < num_classes)).all():
        raise ValueError(
            f"y must hold integer labels from 0 to {num_classes - 1}, got {_some(labels)}; "
            f"relabel, or build the likelihood with num_classes={int(labels.max()) + 1}"
        )
    return labels.long()


def _some(values: Tensor) -> list[float]:
    return [float(v) for v in values.reshape(-1).unique()[:6]]
