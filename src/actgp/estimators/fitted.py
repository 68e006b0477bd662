"""What a file holds of a fitted estimator besides its parameters: the model, and what stands between data and model."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from gpytorch.likelihoods import Likelihood
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from actgp import checks
from actgp.distil import SavedStudent
from actgp.estimators.encoding import Encoding
from actgp.estimators.surroundings import Surroundings
from actgp.models import DeepGP, Mixture
from actgp.persistence import Sizes, savable
from actgp.training import Recipe

DTYPES = re.compile(r"[<>|=]?([biuf]\d{1,2}|U\d{1,9})")  # that hold values only
TYPES: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "U": str}


@savable
@dataclass(frozen=True)
class Standardisation:
    """What a fitted `StandardScaler` knows: means, variances and scales of columns, and of how many rows."""

    SIZES: ClassVar[Sizes] = dict.fromkeys(("mean", "var", "scale"), ("columns",))

    mean: Tensor
    var: Tensor
    scale: Tensor
    rows: int

    def __post_init__(self) -> None:
        checks.integer(self.rows, "rows", minimum=1)
        for name in self.SIZES:
            values: Tensor = getattr(self, name)
            if values.dtype != torch.float64 or not torch.isfinite(values).all() or self.scale.min() <= 0:
                raise ValueError(
                    f"{name} must be finite numbers in double precision, and scales above zero, got others; fit again"
                )

    @classmethod
    def of(cls, scaler: StandardScaler) -> "Standardisation":
        """Those of a fitted scaler."""
        mean, var, scale = (torch.from_numpy(getattr(scaler, f"{name}_")) for name in cls.SIZES)
        return cls(mean, var, scale, int(scaler.n_samples_seen_))

    def scaler(self) -> StandardScaler:
        """The scaler again."""
        scaler = StandardScaler()
        scaler.n_samples_seen_, scaler.n_features_in_ = np.int64(self.rows), len(self.mean)
        for name in self.SIZES:
            setattr(scaler, f"{name}_", getattr(self, name).numpy().copy())
        return scaler


@savable
@dataclass(frozen=True)
class Labels:
    """Two or more labels, sorted and different, and their dtype."""

    dtype: str
    values: Sequence[bool | int | float | str]

    def __post_init__(self) -> None:
        match, values = DTYPES.fullmatch(self.dtype), list(self.values)
        if self.dtype != "object" and not match:
            raise TypeError(f"labels must be numbers or strings, got the dtype {self.dtype}; fit with y as strings")
        kind = TYPES["U" if match is None else match[1][0]]
        if not all(type(value) is kind for value in values):
            raise ValueError(
                f"labels must be values of type {kind.__name__}, got {values!r:.80}; fit with y of one type"
            )
        labels = self.array()
        if len(values) < 2 or labels.tolist() != values or not np.array_equal(np.unique(labels), labels):
            raise ValueError(f"labels must be two or more different values, sorted, got {values!r:.80}; fit again")

    @classmethod
    def of(cls, labels: NDArray[Any]) -> "Labels":
        """Those of a fitted classifier."""
        values = labels.tolist()
        words = labels.dtype == object and all(isinstance(label, str) for label in values)
        return cls("object" if words else labels.dtype.str, values)

    def array(self) -> NDArray[Any]:
        """The labels as they were."""
        try:
            return np.array(self.values, dtype=self.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"labels must be values that fit into {self.dtype}, got others ({error})") from None


@dataclass(frozen=True)
class Fitted(ABC):
    """What every estimator has after `fit`.

    Attributes:
        model: The model, in standardised units.
        recipe: How a single deep GP was trained; None for a mixture.
        inputs: What standardises X.
        columns: What was understood of the columns of X.
        surroundings: Some of the rows.
        student: The model's student, if it has one.
    """

    model: DeepGP | Mixture
    recipe: Recipe | None
    inputs: Standardisation
    columns: Encoding
    surroundings: Surroundings
    student: SavedStudent | None

    @abstractmethod
    def estimator(self) -> Any:
        """The fitted estimator."""

    @staticmethod
    def shared(estimator: Any) -> dict[str, Any]:
        """These attributes, of a fitted estimator."""
        inputs, columns = Standardisation.of(estimator.input_scaler_), estimator.columns_
        student = None if estimator.student_ is None else SavedStudent.of(estimator.student_)
        known = {"columns": columns, "surroundings": estimator.surroundings_, "student": student}
        return {"model": estimator.model_, "recipe": estimator.recipe_, "inputs": inputs, **known}

    def check(self, likelihood: type[Likelihood]) -> None:
        """Refuses a model of another kind than the estimator's, or for other columns."""
        model, D = self.model, self.model.input_dim
        if type(model) not in (DeepGP, Mixture) or type(model.likelihood) is not likelihood:
            raise ValueError(
                f"the model must be a DeepGP or a Mixture with {likelihood.__name__}, got a {type(model).__name__} "
                f"with {type(model.likelihood).__name__}; fit again"
            )
        if (self.recipe is None) is not isinstance(model, Mixture):
            raise ValueError(
                f"a DeepGP must have the recipe by which it was trained, and a Mixture none, got a "
                f"{type(model).__name__} with {self.recipe!r:.40}; fit again"
            )
        if any(values.dtype != torch.float64 for values in model.parameters()):
            raise ValueError("the model must be in double precision, got another; fit again, or save model_")
        if not len(self.inputs.mean) == len(self.columns.outputs) == self.surroundings.rows.shape[1] == D:
            raise ValueError(
                f"there must be {D} scales, and {D} numbers that columns become, got {len(self.inputs.mean)} and "
                f"{len(self.columns.outputs)}; fit again"
            )

    def give(self, estimator: BaseEstimator) -> None:
        """Gives them to an estimator that has its parameters."""
        if self.columns.named:
            estimator.feature_names_in_ = np.array(self.columns.names, dtype=object)
        estimator.n_features_in_, estimator.columns_ = len(self.columns), self.columns
        estimator.model_, estimator.recipe_ = self.model, self.recipe
        estimator.student_ = None if self.student is None else self.student.student()
        estimator.input_scaler_, estimator.surroundings_ = self.inputs.scaler(), self.surroundings
