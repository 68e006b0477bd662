"""A student that is small whatever the model is: for pages, which carry it, and for tables of millions of rows.

A student of a mixture keeps the means of all its members, which may be GPs with a thousand points. This one is of a
model that is asked and not looked into: a network learns its means, and 64 points know near from far.
"""

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from actgp.distil import FidelityWarning, Inside, Student, distill, inside
from actgp.estimators import DGPClassifier, DGPRegressor
from actgp.estimators.columns import Matrix
from actgp.models import MixedPrediction, Prediction

MOST_ROWS = 5_000


@dataclass(frozen=True)
class Unseen:
    """What an estimator predicts, and nothing of what it is."""

    estimator: DGPRegressor | DGPClassifier

    def predict(self, X: Tensor) -> Prediction | MixedPrediction:
        """Of standardised rows."""
        return self.estimator.model_.predict(X, self.estimator.num_samples)


@inside.register(Unseen)
def _inside(unseen: Unseen) -> Inside:
    return inside(unseen.estimator)._replace(model=unseen)


def compact_student(estimator: DGPRegressor | DGPClassifier, numbers: Matrix) -> Student:
    """A student, whose report says how faithful it is.

    Args:
        estimator: Fitted.
        numbers: Rows of the table, as `estimator.encode` gives them.
    """
    rows = torch.from_numpy(numbers)
    if len(rows) > MOST_ROWS:
        rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:MOST_ROWS]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FidelityWarning)  # as its report says
        return distill(Unseen(estimator), rows)
