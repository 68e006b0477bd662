"""What each column does: its relevance, and errors along it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from actgp.distil import LongTailed, Normals
from actgp.estimators import DGPClassifier, DGPRegressor
from actgp.page.quality import probability_below
from actgp.page.values import MOST_CHOICES, scale_of, written

Values = NDArray[np.float64]

MOST_COLUMNS, MOST_ROWS, REPEATS = 20, 250, 2
POINTS = 300
EDGE = 1e-4  # of probabilities, so that their normal scores are finite
SEED = 0


def most_relevant(estimator: DGPRegressor | DGPClassifier) -> list[str]:
    """Names of columns that are used, the most relevant first."""
    names = [str(column.name) for column in estimator.columns_]
    used = [column.dropped is None for column in estimator.columns_]
    order = np.argsort(-estimator.feature_relevance_, kind="stable")
    return [names[i] for i in order if used[i]]


def relevance(
    estimator: DGPRegressor | DGPClassifier, frame: pd.DataFrame, y: Values, names: Sequence[str]
) -> list[dict[str, Any]]:
    """How much the log density of test rows falls if a column is shuffled, in nats, the most relevant first."""
    frame, targets = frame.head(MOST_ROWS), torch.from_numpy(y[:MOST_ROWS])
    random = np.random.default_rng(SEED)
    whole = estimator.predict_dist(frame).log_prob(targets)
    found = []
    for name in names[:MOST_COLUMNS]:
        falls = []
        for _ in range(REPEATS):
            shuffled = frame.assign(**{name: frame[name].to_numpy()[random.permutation(len(frame))]})
            shuffled[name] = shuffled[name].astype(frame[name].dtype)
            falls.append((whole - estimator.predict_dist(shuffled).log_prob(targets)).numpy())
        fall = np.mean(falls, axis=0)
        found.append({"column": name, "fall": fall.mean(), "error": fall.std() / np.sqrt(len(fall))})
    return sorted(found, key=lambda each: -each["fall"])


def residuals(
    estimator: DGPRegressor, frame: pd.DataFrame, outputs: Normals | LongTailed, y: Values, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Standardised residuals along columns: Φ⁻¹(P(Y ≤ y)), standard normal if predictions are calibrated."""
    below = torch.from_numpy(probability_below(outputs, y).clip(EDGE, 1 - EDGE))
    scores = torch.special.ndtri(below).numpy()[:POINTS]
    found = []
    for name in names:
        column, values = estimator.columns_[name], frame[name]
        scale = scale_of(column, values)
        if scale == "choice" and values.nunique() > MOST_CHOICES:
            continue
        shown = [written(value) for value in values.head(POINTS).tolist()]
        found.append({"column": name, "scale": scale, "values": shown, "scores": scores})
    return found
