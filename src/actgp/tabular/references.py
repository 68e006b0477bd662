"""What a table's model is compared with: gradient-boosted trees of scikit-learn, and no model at all.

Trees say no distribution: theirs is a normal one around what they predict, as wide as their errors are on a fifth of
the training rows, which they were not given.
"""

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from actgp.distil import Classes, Normals, Outputs
from actgp.estimators.columns import Matrix

Values = NDArray[np.float64]

TREES, NOTHING = "gradient-boosted trees", "no columns at all"
MOST_ROWS = 100_000  # that trees are given
KEPT_ASIDE = 0.2
SEED = 0
TINY = 1e-12


def references(train: Matrix, y: Values, test: Matrix, num_classes: int | None) -> dict[str, Outputs]:
    """What each says of test rows, by name.

    Args:
        train: Training rows as numbers.
        y: Their targets, or labels 0 … C − 1.
        test: Test rows.
        num_classes: C; None for a regression.
    """
    if num_classes is None:
        alone = _normal(np.full(len(test), y.mean()), float(y.std()))
        return {TREES: _boosted(train, y, test), NOTHING: alone}
    shares = np.bincount(y.astype(int), minlength=num_classes) / len(y)
    return {TREES: _boosted_labels(train, y, test, num_classes), NOTHING: _classes(np.tile(shares, (len(test), 1)))}


def _boosted(train: Matrix, y: Values, test: Matrix) -> Normals:
    X, X_aside, own, aside = train_test_split(train[:MOST_ROWS], y[:MOST_ROWS], test_size=KEPT_ASIDE, random_state=SEED)
    trees = HistGradientBoostingRegressor(random_state=SEED).fit(X, own)
    width = float(np.sqrt(np.mean((trees.predict(X_aside) - aside) ** 2)))
    return _normal(trees.predict(test), width)


def _boosted_labels(train: Matrix, y: Values, test: Matrix, num_classes: int) -> Classes:
    trees = HistGradientBoostingClassifier(random_state=SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # on classes of a few rows
        trees.fit(train[:MOST_ROWS], y[:MOST_ROWS].astype(int))
    p = np.zeros((len(test), num_classes))
    p[:, trees.classes_] = trees.predict_proba(test)
    return _classes(p)


def _normal(mean: Values, width: float) -> Normals:
    values = torch.from_numpy(mean)
    std = torch.full_like(values, max(width, TINY))
    one = torch.ones_like(values)[None]
    return Normals(values, torch.zeros_like(values), std, one, values[None], std[None] ** 2)


def _classes(p: Matrix) -> Classes:
    probabilities = torch.from_numpy(p)
    return Classes(probabilities, torch.zeros_like(probabilities))
