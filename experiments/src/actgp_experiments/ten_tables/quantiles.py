"""Gradient-boosted trees with quantiles: what a data scientist takes who wants intervals.

For targets, `HistGradientBoostingRegressor` for the mean, and one for each of eleven quantiles, with scikit-learn's
defaults. A density is made of them in the usual way: the distribution function is linear between quantiles, which have
been sorted, with exponential tails beyond the outermost ones, as steep as the density beside them. Steps between
quantiles are at least a thousandth of the targets' spread, else the density of equal quantiles is infinite. Columns are
as scikit-learn takes them: numbers with NaN, and text as categories.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

Values = NDArray[np.float64]

LEVELS = np.array([0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99])
SMALLEST = 1e-3  # of the spread of targets, between quantiles
MOST_CATEGORIES = 250
MOST_ROWS = 100_000
SEED = 0


class Trees(NamedTuple):
    """How good they are: NLPD and RMSE, or log-loss and accuracy; coverage of 95 % intervals."""

    nlpd: float
    point: float
    coverage: float | None


def trees_of_targets(train: pd.DataFrame, y: Values, test: pd.DataFrame, y_test: Values) -> Trees:
    """On a regression."""
    X, X_test = _as_trees_take_it(train, test)
    X, y = X[:MOST_ROWS], y[:MOST_ROWS]
    options = {"categorical_features": "from_dtype", "random_state": SEED}
    mean = HistGradientBoostingRegressor(**options).fit(X, y).predict(X_test)
    fitted = [HistGradientBoostingRegressor(loss="quantile", quantile=level, **options).fit(X, y) for level in LEVELS]
    quantiles = np.sort(np.stack([each.predict(X_test) for each in fitted], axis=1), axis=1)  # [N, Q]
    log_density = log_density_between(quantiles, y_test, SMALLEST * float(y.std()))
    covered = (y_test >= quantiles[:, 1]) & (y_test <= quantiles[:, -2])
    rmse = float(np.sqrt(np.mean((mean - y_test) ** 2)))
    return Trees(-float(log_density.mean()), rmse, float(covered.mean()))


def log_density_between(quantiles: Values, y: Values, smallest: float) -> Values:
    """The logarithm of the density whose distribution function is linear between quantiles, [N]."""
    knots = quantiles[:, :1] + np.cumsum(
        np.concatenate([np.zeros((len(y), 1)), np.maximum(np.diff(quantiles, axis=1), smallest)], axis=1), axis=1
    )
    inside = np.diff(LEVELS) / np.diff(knots, axis=1)  # densities, [N, Q − 1]
    place = (y[:, None] >= knots).sum(1)  # 0 below all, Q above all
    rows = np.arange(len(y))
    density = np.log(inside[rows, np.clip(place - 1, 0, len(LEVELS) - 2)])
    # p(y) = a exp(−a (q − y)) × tail, and a × tail = density at the outermost quantile
    for outside, knot, level in ((place == 0, 0, LEVELS[0]), (place == len(LEVELS), -1, 1 - LEVELS[-1])):
        edge = inside[:, knot]
        tail = np.log(edge) - edge / level * np.abs(y - knots[:, knot])
        density = np.where(outside, tail, density)
    return density


def trees_of_labels(train: pd.DataFrame, y: Values, test: pd.DataFrame, y_test: Values) -> Trees:
    """On labels 0 … C − 1."""
    X, X_test = _as_trees_take_it(train, test)
    trees = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=SEED).fit(X, y.astype(int))
    p = trees.predict_proba(X_test)
    own = p[np.arange(len(y_test)), y_test.astype(int)].clip(1e-15)
    return Trees(-float(np.log(own).mean()), float((p.argmax(1) == y_test).mean()), None)


def _as_trees_take_it(train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Dates as days, text as categories of the training rows; columns without values, and with too many, left out."""
    frames = []
    for frame in (train, test):
        columns = {}
        for name in frame.columns:
            values = frame[name]
            if train[name].isna().all():
                continue
            if pd.api.types.is_datetime64_any_dtype(values.dtype):
                columns[name] = (values - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
            elif pd.api.types.is_bool_dtype(values.dtype) or pd.api.types.is_numeric_dtype(values.dtype):
                columns[name] = values.astype(float)
            elif train[name].nunique() <= MOST_CATEGORIES:
                kinds = sorted(train[name].dropna().unique())
                columns[name] = pd.Categorical(values.where(values.isin(kinds)), categories=kinds)
        frames.append(pd.DataFrame(columns, index=frame.index))
    return frames[0], frames[1]
