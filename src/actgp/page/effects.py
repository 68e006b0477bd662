"""Partial effects: what is predicted if a column, or two, had another value in every row, and how well that is known.

    effect(v) = mean_i μ(x_i with v),     band ± 2 mean_i sd(x_i with v)

sd is the epistemic standard deviation. That of a mean is at most the mean of those of its terms, so the band is wide
enough whatever the correlations between rows.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from actgp.distil import Classes, Outputs
from actgp.estimators import DGPClassifier, DGPRegressor
from actgp.estimators.columns import Matrix
from actgp.page.values import scale_of, typical, written

POINTS, ROWS = 21, 40
PAIR_POINTS, PAIR_ROWS, PAIRED = 11, 15, 3
MOST_CLASSES = 4  # that are shown; of two, the second
BAND = 2.0

Estimator = DGPRegressor | DGPClassifier


def effects(estimator: Estimator, frame: pd.DataFrame, names: Sequence[str]) -> list[dict[str, Any]]:
    """Of each column."""
    found, rows = [], frame.head(ROWS)
    for name in names:
        column = estimator.columns_[name]
        grid = typical(column, frame[name], POINTS)
        if len(grid) < 2:
            continue
        mean, spread = _moments(estimator, rows, {name: grid}, len(grid))
        lower, upper = mean - BAND * spread, mean + BAND * spread
        if isinstance(estimator, DGPClassifier):
            lower, upper = lower.clip(0, 1), upper.clip(0, 1)
        series = [
            {"label": label, "mean": mean[:, c], "lower": lower[:, c], "upper": upper[:, c]}
            for c, label in _shown(estimator)
        ]
        scale = scale_of(column, frame[name])
        found.append({"column": name, "scale": scale, "values": list(map(written, grid)), "series": series})
    return found


def pairs(estimator: Estimator, frame: pd.DataFrame, names: Sequence[str]) -> list[dict[str, Any]]:
    """Of each two of the first columns."""
    found, rows = [], frame.head(PAIR_ROWS)
    shown = _shown(estimator)[:1]
    for first, second in combinations(names[:PAIRED], 2):
        grids = {name: typical(estimator.columns_[name], frame[name], PAIR_POINTS) for name in (first, second)}
        if min(map(len, grids.values())) < 2:
            continue
        places = pd.MultiIndex.from_product(list(grids.values())).to_frame(index=False)
        both = {name: places[i].tolist() for i, name in enumerate(grids)}
        mean, _ = _moments(estimator, rows, both, len(places))
        found.append(
            {
                "columns": [first, second],
                "scales": [scale_of(estimator.columns_[name], frame[name]) for name in grids],
                "values": [list(map(written, grid)) for grid in grids.values()],
                "label": shown[0][1],
                "mean": mean[:, shown[0][0]],  # the second column's values follow each other
            }
        )
    return found


def _shown(estimator: Estimator) -> list[tuple[int, str | None]]:
    """Places and names of outputs that are shown."""
    if isinstance(estimator, DGPRegressor):
        return [(0, None)]
    labels: list[str | None] = [str(label) for label in estimator.classes_]
    return [(1, labels[1])] if len(labels) == 2 else list(enumerate(labels))[:MOST_CLASSES]


def _moments(
    estimator: Estimator, rows: pd.DataFrame, values: dict[str, list[Any]], number: int
) -> tuple[Matrix, Matrix]:
    """Means over rows, of means and of epistemic standard deviations, with each of a number of values, [V, P]."""
    N = len(rows)
    copies = rows.iloc[np.tile(np.arange(N), number)].reset_index(drop=True)
    for name, grid in values.items():
        repeated = pd.Series(grid).repeat(N).reset_index(drop=True)
        copies[name] = repeated.astype(rows[name].dtype) if _fits(repeated, rows[name]) else repeated
    mean, spread = moments(estimator.predict_dist(copies))
    return mean.reshape(number, N, -1).mean(1), spread.reshape(number, N, -1).mean(1)


def moments(outputs: Outputs) -> tuple[Matrix, Matrix]:
    """Means and epistemic standard deviations, [N, P]: of targets, or of probabilities."""
    mean = outputs.probabilities if isinstance(outputs, Classes) else outputs.mean[:, None]
    return mean.numpy(), outputs.epistemic_std.reshape(mean.shape).numpy()


def _fits(values: "pd.Series[Any]", like: "pd.Series[Any]") -> bool:
    """Whether values keep what they are in the type of a column."""
    return not pd.api.types.is_integer_dtype(like.dtype) or bool((values == values.round()).all())
