"""`convert`, then `fit`, then a look at what came of it."""

import copy
from typing import Any

import torch
from gpytorch.likelihoods import Likelihood
from torch import Tensor, nn
from torch.utils.data import DataLoader

from actgp.convert import convert, soften
from actgp.convert.anchor import Select
from actgp.likelihoods import adapter_of
from actgp.models import DeepGP
from actgp.several import GivenRows, Rows, joined
from actgp.training import fit, ranks
from actgp.uncertain.assess import assess, network_alone
from actgp.uncertain.report import UncertaintyReport

MOST_ROWS = 5_000  # by which predictions are assessed


def uncertain(
    network: nn.Module,
    X: GivenRows | DataLoader[Any],
    y: Tensor | None = None,
    held_out: tuple[GivenRows, Tensor] | None = None,
    *,
    test: tuple[GivenRows, Tensor] | None = None,
    likelihood: Likelihood | None = None,
    select: Select | None = None,
    generator: torch.Generator | None = None,
    progress: bool = True,
) -> tuple[DeepGP, UncertaintyReport]:
    """Gives a trained network an uncertainty: `convert` and `fit` in one line, and a report.

    Args:
        network: The network, which is copied.
        X: The inputs that it was trained on: a tensor, a tuple or dictionary of them, or a DataLoader that gives pairs
            (X, y).
        y: Their targets: numbers, or labels as integers; None beside a DataLoader.
        held_out: Rows (X, y) that it was not trained on, such as those that ended its training: by these the width of
            predictions is chosen, and for labels how far logits are believed away from the data (`soften`). Networks
            fit what they were trained on better than anything else, so that widths from X alone may be too small.
        test: Further rows (X, y), used for nothing but the scores of the report; without them, those of `held_out`, or
            of X.
        likelihood: A gpytorch likelihood; by default what suits y, as for `convert`.
        select: What takes the outputs out of what the network gives, if it gives more.
        generator: Source of all randomness; torch's global one by default.
        progress: Whether to show a progress bar, on a terminal.

    Returns:
        The model, whose `predict` gives means, variances, intervals and probabilities, and a report: `print(report)`,
        or `report.save("report.html")`.

    Example:
        >>> import actgp, torch
        >>> net, X = torch.nn.Linear(2, 1), torch.randn(100, 2)
        >>> model, report = actgp.uncertain(net, X, X.sum(1) + 0.1 * torch.randn(100), progress=False)
    """
    ranks.check_alone("uncertain")
    if y is None and not isinstance(X, DataLoader):
        raise ValueError("y must be the targets of X, got None; pass them, or a DataLoader that gives pairs (X, y)")
    model, conversion = convert(network, X, y, likelihood=likelihood, select=select, generator=generator)
    start = copy.deepcopy(model.likelihood)
    given, source = (test, "test rows") if test is not None else (held_out, "held-out rows")
    rows, y_judged = _some_rows(model, *((X, y) if given is None else given))
    # A network alone is given the error on the rows that widths are chosen by, as its model is.
    variance = _squared_error(model, *_some_rows(model, *((X, y) if held_out is None else held_out)))
    before = assess(network_alone(_outputs(model, rows), start, variance), y_judged)
    labels = adapter_of(model.likelihood).has_temperature
    softening = soften(model, *held_out, generator=generator) if labels and held_out is not None else None
    result = fit(model, X, y, held_out=held_out, generator=generator, progress=progress)
    after = assess(model.predict(rows), y_judged)
    return model, UncertaintyReport(
        conversion=conversion,
        fit=result,
        num_rows=conversion.num_rows,
        num_held_out=0 if held_out is None else len(held_out[1]),
        assessed_on=source if given is not None else "rows of X",
        network=before,
        model=after,
        softening=softening,
    )


def _some_rows(model: DeepGP, X: GivenRows | DataLoader[Any], y: Tensor | None) -> tuple[Rows, Tensor]:
    """The first rows, and their targets: of a DataLoader those of its first batches."""
    if not isinstance(X, DataLoader):
        assert y is not None
        return model.rows(X)[:MOST_ROWS], y[:MOST_ROWS]
    batches, count = [], 0
    for x, targets in X:
        batches.append((model.rows(x), targets))
        count += len(targets)
        if count >= MOST_ROWS:
            break
    rows, values = zip(*batches, strict=True)
    return joined(rows)[:MOST_ROWS], torch.cat(values)[:MOST_ROWS]


@torch.no_grad()
def _outputs(model: DeepGP, X: Rows) -> Tensor:
    """[N, P], of the network: before anything is fitted, the mean of the model."""
    return model.mean(X).reshape(len(X), -1)


def _squared_error(model: DeepGP, X: Rows, y: Tensor) -> float | None:
    """The network's; None for noise that is not Gaussian."""
    adapter = adapter_of(model.likelihood)
    if not adapter.squared_error:
        return None
    outputs = _outputs(model, X)
    values = adapter.outcomes(y, outputs.shape[1], outputs.dtype)
    return (outputs - values.to(outputs.device)).square().mean().item()
