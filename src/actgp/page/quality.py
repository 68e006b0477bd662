"""How good predictions of test rows are: calibration, and whether wide intervals are where errors are large."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from actgp.distil import Classes, LongTailed, Normals
from actgp.estimators.columns import Matrix

Values = NDArray[np.float64]

LEVELS = np.linspace(0.05, 0.95, 19)
HISTOGRAM, GROUPS, BINS = 10, 10, 10
MIDDLE = 0.68  # of intervals whose widths are compared with errors
FEWEST = 5  # rows in a bin of confidence


def probability_below(outputs: Normals | LongTailed, y: Values) -> Values:
    """P(Y ≤ y) for each row: uniform, if predictions are calibrated (the probability integral transform)."""
    return outputs.cdf(torch.from_numpy(y).to(outputs.mean)).numpy().astype(np.float64)


def calibration(below: Values) -> dict[str, Any]:
    """How many targets lie in central intervals of each level, and the histogram of `probability_below`."""
    inside = 2 * np.abs(below - 0.5)  # the smallest level whose interval holds y
    counts, _ = np.histogram(below, bins=HISTOGRAM, range=(0, 1))
    covered = [(inside <= level).mean() for level in LEVELS]
    return {"levels": LEVELS, "covered": covered, "histogram": counts / max(1, len(below)), "rows": len(below)}


def widths(outputs: Normals | LongTailed, y: Values) -> dict[str, Any]:
    """Rows in groups, from narrow to wide intervals: half the width that is promised, and the error that is found."""
    lower, upper = (ends.numpy() for ends in outputs.interval(MIDDLE))
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    order = np.argsort(half, kind="stable")
    groups = [part for part in np.array_split(order, min(GROUPS, max(1, len(y) // 8))) if len(part)]
    error = np.abs(y - middle)
    found = [np.quantile(error[part], MIDDLE) for part in groups]
    return {"promised": [half[part].mean() for part in groups], "found": found, "rows": [len(part) for part in groups]}


def reliability(outputs: Classes, y: Values) -> dict[str, Any]:
    """How often the chosen class is right, where its probability is about the same."""
    p = outputs.probabilities.numpy()
    sure, right = p.max(1), p.argmax(1) == y
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    kept = [b for b in range(BINS) if (bins == b).sum() >= FEWEST]
    return {
        "sure": [sure[bins == b].mean() for b in kept],
        "right": [right[bins == b].mean() for b in kept],
        "rows": [int((bins == b).sum()) for b in kept],
        "shares": [(bins == b).mean() for b in range(BINS)],
    }


def confusion(p: Matrix, y: Values) -> Matrix:
    """How many rows of each class, by row, are taken for each, by column."""
    counts = np.zeros((p.shape[1], p.shape[1]))
    np.add.at(counts, (y.astype(int), p.argmax(1)), 1)
    return counts
