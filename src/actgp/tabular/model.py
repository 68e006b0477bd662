"""A model of a table: an estimator, its student, and what is known of the table's columns."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from actgp.distil import Classes, Outputs, SavedStudent, Student
from actgp.estimators import DGPClassifier, DGPRegressor, Fitted
from actgp.estimators.frames import read
from actgp.persistence import savable, save
from actgp.tabular.reading import DateFormat, as_dates
from actgp.tabular.scores import LEVEL
from actgp.tabular.task import Task

UNLIKE = 0.995  # outlyingness from which on a row is unlike the training data
TINY = 1e-300


@dataclass(frozen=True)
class TableModel:
    """A model of a table.

    Attributes:
        estimator: What was fitted.
        student: What says nearly the same, much faster.
        target: The name of the column that is predicted.
        dates: How columns of text write dates.
        page: The numbers on its page, as JSON.
    """

    estimator: DGPRegressor | DGPClassifier
    student: Student
    target: str
    dates: Sequence[DateFormat]
    page: str

    @property
    def task(self) -> Task:
        """What kind of target it has."""
        return "classification" if isinstance(self.estimator, DGPClassifier) else "regression"

    @property
    def words(self) -> list[str]:
        """Columns that are read as text, whatever a file has there."""
        written = [each.column for each in self.dates]
        of_words = [str(column.name) for column in self.estimator.columns_ if column.kind == "text"]
        return [*written, *of_words]

    def predict(self, frame: pd.DataFrame, *, fast: bool = False) -> pd.DataFrame:
        """Columns that say what is predicted for each row.

        Args:
            frame: Rows; columns are found by their names.
            fast: Whether the student is asked.
        """
        outputs, unlike = self.outputs(frame, fast=fast)
        if isinstance(outputs, Classes):
            said = self._labels(outputs)
        else:
            lower, upper = outputs.interval(LEVEL)
            epistemic, variance = outputs.epistemic_std.square(), outputs.std.square()
            said = {
                "predicted_mean": outputs.mean.numpy(),
                "predicted_std": outputs.std.numpy(),
                "predicted_lower": lower.numpy(),
                "predicted_upper": upper.numpy(),
                "epistemic_share": (epistemic / variance.clamp_min(TINY)).numpy(),
            }
        return pd.DataFrame({**said, "unlike_training": unlike}, index=frame.index)

    def outputs(self, frame: pd.DataFrame, *, fast: bool = False) -> tuple[Outputs, NDArray[np.bool_]]:
        """The predictive distribution of each row, and whether it is unlike the training data."""
        frame = as_dates(self._own(frame), self.dates)
        if not fast:
            return self.estimator.predict_dist(frame), self.unlike(self.estimator.outlyingness(frame))
        numbers = self.estimator.encode(frame)
        scaled = torch.from_numpy(self.estimator.input_scaler_.transform(numbers))
        unlike = self.unlike(self.estimator.surroundings_.outlyingness(scaled).numpy())
        return self.student.predict(torch.from_numpy(numbers)), unlike

    def _own(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The columns that there were in `fit`, also where all are numbers."""
        columns = self.estimator.columns_
        if not set(columns.names) <= set(frame.columns):
            columns.select(read(frame))  # says which is not there
        return frame[columns.names]

    def unlike(self, outlyingness: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Rows farther from all training rows than these are from each other, but for one in two hundred."""
        return outlyingness >= UNLIKE

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file, all of it at once; `actgp.load` reads it."""
        student = SavedStudent.of(self.student)
        save(SavedTable(self.estimator._fitted(), student, self.target, list(self.dates), self.page), path, "table")

    def _labels(self, outputs: Classes) -> dict[str, NDArray[np.generic]]:
        p, spread = outputs.probabilities.numpy(), outputs.epistemic_std.numpy()
        chosen = p.argmax(1)
        rows = np.arange(len(p))
        # Var[1(y = c)] = p (1 − p), of which spread² is of not knowing f
        variance = np.maximum(p[rows, chosen] * (1 - p[rows, chosen]), TINY)
        said: dict[str, NDArray[np.generic]] = {"predicted": self.estimator.classes_[chosen]}
        said |= {f"probability_{label}": p[:, c] for c, label in enumerate(self.estimator.classes_)}
        return {**said, "epistemic_share": np.minimum(1.0, spread[rows, chosen] ** 2 / variance)}


@savable
@dataclass(frozen=True)
class SavedTable:
    """What a file holds of a table's model."""

    fitted: Fitted
    student: SavedStudent
    target: str
    dates: Sequence[DateFormat]
    page: str

    def table(self) -> TableModel:
        """The model again."""
        return TableModel(self.fitted.estimator(), self.student.student(), self.target, self.dates, self.page)
