"""From a table to its model: rows to test with, training, scores beside two references, and a student."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from actgp.distil import Outputs
from actgp.estimators import DGPClassifier, DGPRegressor
from actgp.tables import Effort
from actgp.tabular.compact import compact_student
from actgp.tabular.model import TableModel
from actgp.tabular.reading import Reading
from actgp.tabular.references import references
from actgp.tabular.scores import Scores, scores_of
from actgp.tabular.task import Target, Task, target_of

FEWEST_ROWS = 10
TEST_SHARE, MOST_TEST_ROWS = 0.2, 5_000
PART_OF_TIME = 0.6  # of a budget, for training; the rest is for scores, the student and the page
OURS = "actgp"

Say = Callable[[str], None]


class Settings(NamedTuple):
    """How a table is fitted.

    Attributes:
        target: The column that is predicted.
        task: What kind it is; found from its values if None.
        drop: Columns that are left out.
        effort: How much time is spent.
        time_budget: Seconds, for everything; as many as it takes if None.
        seed: Of all randomness, the choice of test rows included.
        progress: Whether to show progress bars, or lines where there is no terminal.
    """

    target: str
    task: Task | None = None
    drop: Sequence[str] = ()
    effort: Effort = "balanced"
    time_budget: float | None = None
    seed: int = 0
    progress: bool = False


class Fitting(NamedTuple):
    """What came of it.

    Attributes:
        model: The model, without a page.
        target: What was understood of the target.
        notes: What is to be known about the rows.
        train: Training rows.
        train_y: Their targets: numbers, or labels 0 … C − 1.
        test: Test rows.
        y: Their targets.
        outputs: What the model says of them.
        scores: Of the model and of the references.
        seconds: What each part took.
    """

    model: TableModel
    target: Target
    notes: Sequence[str]
    train: pd.DataFrame
    train_y: NDArray[np.float64]
    test: pd.DataFrame
    y: NDArray[np.float64]
    outputs: Outputs
    scores: Sequence[Scores]
    seconds: dict[str, float]


def fit_frame(reading: Reading, settings: Settings, say: Say = lambda _: None) -> Fitting:
    """Fits a model to a table.

    Args:
        reading: The table.
        settings: How.
        say: Told what is under way.
    """
    began = time.perf_counter()
    frame = reading.frame
    if unknown := [name for name in settings.drop if name not in frame.columns]:
        raise ValueError(f"--drop must name columns of the table, got {unknown}; choose among {list(frame.columns)}")
    target = target_of(frame, settings.target, settings.task)
    X = frame[target.rows].drop(columns=[settings.target, *settings.drop]).reset_index(drop=True)
    if X.shape[1] == 0 or len(X) < FEWEST_ROWS:
        raise ValueError(
            f"a table must have a column beside the target, and {FEWEST_ROWS} rows where it is not missing, got "
            f"{X.shape[1]} and {len(X)}; add some"
        )
    X, notes = _finite(X)
    if missing := int((~target.rows).sum()):
        notes.append(f"{missing} rows without a target are left out")
    test, train = _split(target, settings.seed)
    say(f"training on {len(train):,} rows; {len(test):,} are kept to test with")
    cls: type[DGPRegressor | DGPClassifier] = DGPRegressor if target.task == "regression" else DGPClassifier
    estimator = cls(
        effort=settings.effort,
        time_budget=None if settings.time_budget is None else PART_OF_TIME * settings.time_budget,
        random_state=settings.seed,
        progress=settings.progress,
    ).fit(X.iloc[train], target.values[train])
    seconds = {"training": time.perf_counter() - began}
    say("scoring the rows kept aside, beside gradient-boosted trees")
    classes = None if isinstance(estimator, DGPRegressor) else estimator.classes_
    y = target.values if classes is None else np.searchsorted(classes, target.values).astype(float)
    numbers = estimator.encode(X.iloc[train])
    outputs = estimator.predict_dist(X.iloc[test])
    scores = [scores_of(OURS, outputs, y[test])]
    others = references(numbers, y[train], estimator.encode(X.iloc[test]), None if classes is None else len(classes))
    scores += [scores_of(name, said, y[test]) for name, said in others.items()]
    seconds["scores"] = time.perf_counter() - began - seconds["training"]
    say("teaching a small network to say the same, for the page and for predict --fast")
    student = compact_student(estimator, numbers)
    notes += [f"the small network is not as faithful as it should be: {weak}" for weak in student.report.weak]
    seconds["student"] = time.perf_counter() - began - sum(seconds.values())
    used = set(X.columns)
    dates = [each for each in reading.dates if each.column in used]
    model = TableModel(estimator, student, settings.target, dates, "")
    parts = (X.iloc[train], y[train], X.iloc[test], y[test])
    return Fitting(model, target, [*reading.notes, *notes], *parts, outputs, scores, seconds)


def _split(target: Target, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to test with, and to train on: of each class in proportion, and of every class one to train on."""
    N = len(target.values)
    number = min(MOST_TEST_ROWS, max(2, round(TEST_SHARE * N)))
    if target.task == "regression":
        train, test = train_test_split(np.arange(N), test_size=number, random_state=seed)
        return np.sort(test), np.sort(train)
    labels, counts = np.unique(target.values, return_counts=True)
    rare = np.isin(target.values, labels[counts < 2])  # these are trained on
    often = np.flatnonzero(~rare)
    number = min(max(number, len(labels)), len(often) - len(labels))
    train, test = train_test_split(
        often, test_size=number, random_state=seed, stratify=target.values[often] if number >= len(labels) else None
    )
    return np.sort(test), np.sort(np.concatenate([train, np.flatnonzero(rare)]))


def _finite(X: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Infinite numbers are missing."""
    notes = []
    for name in X.columns[[pd.api.types.is_float_dtype(dtype) for dtype in X.dtypes]]:
        infinite = np.isinf(X[name].to_numpy(dtype=np.float64, na_value=np.nan))
        if infinite.any():
            X[name] = X[name].mask(infinite)
            notes.append(f"{int(infinite.sum())} infinite numbers in column {name!r} count as missing")
    return X, notes
