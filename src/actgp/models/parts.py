"""Predictions at more rows than fit into memory, some at a time."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from actgp import checks
from actgp.models.deep import DeepGP
from actgp.models.mixture import MixedPrediction, Mixture
from actgp.models.prediction import Prediction
from actgp.on_disk import table_of
from actgp.several import GivenRows, gathered

ROWS = 8_192


def predict_in_parts(
    model: DeepGP | Mixture,
    X: Iterable[Any] | Any,
    num_samples: int = 20,
    *,
    targets: str | Sequence[str] | None = None,
    rows: int = ROWS,
) -> Iterator[Prediction | MixedPrediction]:
    """Predicts the rows of a source part by part, in order: memory does not grow with their number.

    Args:
        model: The model.
        X: A `numpy.memmap`; a `pyarrow.dataset.Dataset`, such as Parquet files; or a DataLoader or another iterable of
            inputs, alone or in pairs (X, y).
        num_samples: S, the number of paths.
        targets: Columns of a data set that are no inputs.
        rows: The most in a part.

    Returns:
        The predictions of one part after the other, each as `model.predict` gives it.

    Example:
        >>> import actgp, torch
        >>> model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=8)
        >>> parts = actgp.predict_in_parts(model, torch.randn(100, 2).split(40))
        >>> torch.cat([part.mean for part in parts]).shape
        torch.Size([100])
    """
    rows = checks.integer(rows, "rows", minimum=1)
    first = next(p for p in model.parameters() if p.is_floating_point())
    for given in _inputs(X, targets):
        for part in gathered(given).split(rows):
            is_real = isinstance(part, Tensor) and part.is_floating_point()
            inputs: Any = part.to(first.device, first.dtype) if is_real else part.to(first.device)
            yield model.predict(inputs, num_samples)


def _inputs(X: Any, targets: str | Sequence[str] | None) -> Iterator[GivenRows]:
    """The inputs of each block or batch."""
    if (table := table_of(X, targets)) is not None:
        for block in range(len(table.sizes)):
            yield torch.from_numpy(table.read(block)[0])
        return
    for batch in X:
        yield batch[0] if isinstance(batch, list | tuple) and len(batch) <= 2 else batch
