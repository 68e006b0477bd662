"""How good predictions are, on rows that no model has seen."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actgp.distil import Classes, Outputs
from actgp.estimators.columns import Matrix

LEVEL = 0.95
BINS = 10


class Scores(NamedTuple):
    """Scores by name, the best first known: lower is better, but for coverage and accuracy."""

    model: str
    values: dict[str, float]


def scores_of(model: str, outputs: Outputs, y: NDArray[np.float64]) -> Scores:
    """Of a predictive distribution; labels are 0 … C − 1."""
    nlpd = -float(outputs.log_prob(outputs[0].new_tensor(y)).mean())
    if isinstance(outputs, Classes):
        p = outputs.probabilities.numpy()
        accuracy = float((p.argmax(1) == y).mean())
        return Scores(model, {"accuracy": accuracy, "log-loss": nlpd, "ECE": calibration_error(p, y)})
    lower, upper = (ends.numpy() for ends in outputs.interval(LEVEL))
    rmse = float(np.sqrt(np.mean((outputs.mean.numpy() - y) ** 2)))
    covered = float(np.mean((y >= lower) & (y <= upper)))
    return Scores(model, {"RMSE": rmse, "NLPD": nlpd, "coverage": covered, "width": float(np.median(upper - lower))})


def calibration_error(p: Matrix, y: NDArray[np.float64]) -> float:
    """ECE: how far the chosen class's probability is from how often it is right, in ten bins, weighted."""
    sure, right = p.max(1), p.argmax(1) == y
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = [abs(sure[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return float(sum(gaps))
