"""What the regressor and the classifier share: parameters, training, the rows to predict, files."""

import os
from abc import ABCMeta, abstractmethod
from dataclasses import fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from gpytorch.likelihoods import Likelihood
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import Tensor

from actgp import checks
from actgp.distil import Inside, Outputs, Scaling, Student, distill, distribution, inside, joined
from actgp.estimators.columns import Matrix
from actgp.estimators.encoding import Encoding
from actgp.estimators.fitted import Fitted
from actgp.estimators.frames import read
from actgp.estimators.scaling import fitted_scaler
from actgp.estimators.surroundings import Surroundings
from actgp.estimators.targets import check_targets
from actgp.models import DeepGP, Layers, MixedPrediction, Mixture, Prediction, deep_gp
from actgp.models.build import NUM_INDUCING, NUM_LAYERS, check_layers
from actgp.persistence import savable_as, save
from actgp.tables import PLANS, Effort, TableFit, fit_table
from actgp.training import FitResult, Recipe, fit

NUMBERS = ("num_layers", "num_inducing", "num_samples")
ONE_DEEP_GP = ("num_layers", "num_inducing", "layers", "recipe")  # parameters that ask for one
PARTS: dict[str, type[Layers | Recipe]] = {"layers": Layers, "recipe": Recipe}  # parameters that have fields
PARTS_OF_STEPS: dict[Effort, float] = {"fast": 0.1, "balanced": 1.0, "best": 1.0}  # of the default recipe
FEWEST_ROWS = 2  # a single one has no spread to be scaled by
LARGEST_SEED = 2**31 - 1
SEED = 0
ROWS = 2_048  # that are predicted at a time
SHORTEST = 1e-3  # seconds of a budget that is used up


class Rows(NamedTuple):
    """The rows of `fit`.

    Attributes:
        given: X, as it was given.
        columns: What was understood of it.
        numbers: What it becomes.
    """

    given: ArrayLike
    columns: Encoding
    numbers: Matrix

    def scaler(self) -> StandardScaler:
        """What standardises them."""
        return fitted_scaler(self.numbers, "X", self.columns.outputs, self.columns.flags)

    def standardised(self) -> Tensor:
        """The numbers, [N, D]."""
        return torch.from_numpy(self.scaler().transform(self.numbers))


class DGPEstimator(BaseEstimator, metaclass=ABCMeta):
    """Deep GPs behind scikit-learn's interface. Abstract: use `DGPRegressor` or `DGPClassifier`.

    What is not given of a single deep GP is as `deep_gp` and `fit` have it: the same table gives the same model by
    either way.
    """

    model_: DeepGP | Mixture
    student_: Student | None
    report_: TableFit | FitResult

    def __init__(
        self,
        num_layers: int | None = None,
        num_inducing: int | None = None,
        *,
        effort: Effort = "balanced",
        time_budget: float | None = None,
        layers: Layers | None = None,
        recipe: Recipe | None = None,
        num_samples: int = 32,
        random_state: int | np.random.RandomState | None = None,
        device: torch.device | str | None = None,
        progress: bool = False,
    ) -> None:
        self.num_layers = num_layers
        self.num_inducing = num_inducing
        self.effort = effort
        self.time_budget = time_budget
        self.layers = layers
        self.recipe = recipe
        self.num_samples = num_samples
        self.random_state = random_state
        self.device = device
        self.progress = progress

    def set_params(self, **params: Any) -> Self:
        """Sets parameters, and fields of `layers` and `recipe`: `layers__activation="relu"`, `recipe__num_steps=500`.

        A field that is set in a part that is None makes it one with defaults, `Layers()` or `Recipe()`, but for this.
        """
        of_parts = {name: params.pop(name) for name in tuple(params) if "__" in name}
        super().set_params(**params)
        for name, value in of_parts.items():
            part, _, field = name.partition("__")
            known = [f"{part}__{each.name}" for part, cls in PARTS.items() for each in fields(cls)]
            if name not in known:
                raise ValueError(f"a field of a parameter must be one of {known}, got {name!r}; set one of these")
            current = getattr(self, part)
            setattr(self, part, replace(PARTS[part]() if current is None else current, **{field: value}))
        return self

    def distill(self, X: ArrayLike) -> Student:
        """Makes a student of the fitted model (`actgp.distill`) on rows such as those of `fit`, and returns it.

        It is kept as `student_`, and saved with the estimator. It is given the numbers that rows become:
        `student_.predict(torch.from_numpy(estimator.encode(X)))`, in the units of y.
        """
        self.student_ = distill(self, torch.from_numpy(self.encode(X)))
        return self.student_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the fitted estimator to a file, all of it at once; `actgp.load` reads it."""
        check_is_fitted(self, "model_")
        if savable_as(self) is None:
            raise TypeError(
                f"to be saved, an estimator must be of a class of actgp, got {type(self).__name__}, whose code no file "
                "holds; pickle it, or save its model_"
            )
        save(self._fitted(), path, "estimator")

    def config(self) -> dict[str, Any]:
        """The parameters, for files (`persistence`)."""
        seed, device = self.random_state, self.device
        if isinstance(seed, np.random.RandomState):
            raise TypeError(
                "to be saved, random_state must be an integer or None, got a RandomState; "
                "call set_params(random_state=0) first"
            )
        return {
            **{name: None if (value := getattr(self, name)) is None else int(value) for name in NUMBERS},
            "effort": self.effort,
            "time_budget": None if self.time_budget is None else float(self.time_budget),
            "layers": self.layers,
            "recipe": self.recipe,
            "random_state": None if seed is None else int(seed),
            "device": None if device is None else str(device),
            "progress": bool(self.progress),
        }

    def check_parameters(self) -> None:
        """Refuses parameters that `fit` could not use."""
        for name in NUMBERS:
            if (value := getattr(self, name)) is not None or name == "num_samples":
                checks.integer(value, name, minimum=1)
        checks.choice(self.effort, "effort", tuple(PLANS))
        if self.time_budget is not None:
            checks.positive(self.time_budget, "time_budget")
            if self._asks_for_one_deep_gp:
                raise ValueError(
                    f"a time budget is for the default, got time_budget={self.time_budget} beside one of "
                    f"{ONE_DEEP_GP}; leave it out, and pass recipe=actgp.Recipe(num_steps=…)"
                )
        check_layers(self.layers)
        if self.recipe is not None and not isinstance(self.recipe, Recipe):
            raise TypeError(
                f"recipe must be an actgp.Recipe or None, got {type(self.recipe).__name__}; "
                "pass e.g. actgp.Recipe(num_steps=500)"
            )
        check_random_state(self.random_state)

    @abstractmethod
    def _fitted(self) -> Fitted:
        """What a file holds."""

    def _checked(self, X: ArrayLike, y: ArrayLike | None, **options: Any) -> tuple[Rows, NDArray[Any]]:
        """Validates parameters and data, and leaves `self` as it is: after a refused fit the last one still stands."""
        self.check_parameters()
        table = read(X, fewest_rows=FEWEST_ROWS)
        validate_data(clone(self), X, skip_check_array=True)  # the names of the columns
        check_targets(y)
        targets: NDArray[Any] = validate_data(clone(self), y=y, **options)
        check_consistent_length(table.columns[0].array, targets)
        columns = Encoding.learn(table)
        return Rows(X, columns, columns.encode(table)), targets

    @property
    def _asks_for_one_deep_gp(self) -> bool:
        return any(getattr(self, name) is not None for name in ONE_DEEP_GP)

    def _train(
        self,
        rows: Rows,
        y: Tensor,
        num_outputs: int,
        layers: Layers | None,
        likelihood: Likelihood | None = None,
    ) -> None:
        """Builds a deep GP for rows, trains it, and stores what came of it."""
        generator, scaler, inputs = self._prepared(rows)
        N, D = inputs.shape
        M = min(NUM_INDUCING if self.num_inducing is None else self.num_inducing, N)
        L = NUM_LAYERS if self.num_layers is None else self.num_layers
        model = deep_gp(D, num_outputs, L, M, layers=layers, likelihood=likelihood, generator=generator).double()
        recipe = self._recipe(model)
        result = fit(model, inputs, y, recipe, device=self.device, generator=generator, progress=self.progress)
        self._store(rows, model, recipe, scaler, inputs)
        self.report_ = result

    def _train_mixture(self, rows: Rows, y: Tensor, spent: float = 0.0) -> None:
        """Fits the default for tables, for which so many seconds are spent already, and stores what came of it."""
        generator, scaler, inputs = self._prepared(rows)
        left = None if self.time_budget is None else max(SHORTEST, self.time_budget - spent)
        model, report = fit_table(
            inputs,
            y,
            effort=self.effort,
            time_budget=left,
            generator=generator,
            progress=self.progress,
        )
        self._store(rows, model if self.device is None else model.to(self.device), None, scaler, inputs)
        self.report_ = report

    def _prepared(self, rows: Rows) -> tuple[torch.Generator, StandardScaler, Tensor]:
        """A source of randomness, what standardises rows, and these standardised."""
        seed = int(check_random_state(self.random_state).randint(LARGEST_SEED))
        scaler = rows.scaler()
        return torch.Generator().manual_seed(seed), scaler, torch.from_numpy(scaler.transform(rows.numbers))

    def _recipe(self, model: DeepGP) -> Recipe:
        """As given; else the default of `fit`, with fewer steps for less effort than the best."""
        if self.recipe is not None:
            return self.recipe
        suited, part = Recipe.suited_to(model), PARTS_OF_STEPS[self.effort]
        steps = {name: round(part * getattr(suited, name)) for name in ("network_steps", "num_steps", "patience")}
        return replace(suited, **steps)

    def _store(
        self, rows: Rows, model: DeepGP | Mixture, recipe: Recipe | None, scaler: StandardScaler, inputs: Tensor
    ) -> None:
        validate_data(self, rows.given, skip_check_array=True)  # the number and the names of the columns
        self.surroundings_ = Surroundings.of(inputs, torch.Generator().manual_seed(SEED))
        self.model_, self.recipe_, self.input_scaler_, self.columns_ = model, recipe, scaler, rows.columns
        self.student_ = None  # that of an earlier fit knows nothing of this one

    def encode(self, X: ArrayLike) -> Matrix:
        """The numbers that rows become before they are standardised, [N, len(columns_.outputs)].

        Columns are matched by name, wherever they stand, and further ones are ignored. Tables of numbers alone keep
        scikit-learn's rule: the same columns in the same order.
        """
        check_is_fitted(self, "model_")
        table = read(X)
        if table.names is not None and self.columns_.named and not self.columns_.are_numbers:
            table = self.columns_.select(table)
        else:
            validate_data(self, X, reset=False, skip_check_array=True)
        return self.columns_.encode(table)

    def predict_dist(self, X: ArrayLike) -> Outputs:
        """The predictive distribution at each row, in the units of y: as tensors, with what they consist of."""
        inputs = self._inputs(X)
        scaling = inside(self).scaling
        assert scaling is not None
        parts = []
        for part in inputs.split(ROWS):
            said = distribution(self.model_.predict(part, self.num_samples), len(part))
            parts.append(scaling.outputs(type(said)(*(values.cpu() for values in said))))
        return joined(parts)

    def outlyingness(self, X: ArrayLike) -> NDArray[np.float64]:
        """How unlike the rows of `fit` each row is, from 0 to 1.

        It is the part of the rows of `fit` (of 1,000 of them) that are nearer to another one than this row is to the
        nearest of them, in standardised columns: of new rows like those of `fit`, one in a hundred has more than 0.99.
        """
        return self.surroundings_.outlyingness(self._inputs(X).cpu()).numpy()

    @property
    def feature_relevance_(self) -> NDArray[np.float64]:
        """How much predictions depend on each column, from 0 on: its total effect, by rows of `fit`.

        Half the mean squared change of the prediction where a column's value is that of another row, as a part of the
        variance of predictions. It is computed when it is asked for.
        """
        check_is_fitted(self, "model_")
        groups = [len(column.outputs) for column in self.columns_]
        return self.surroundings_.relevance(self._outputs, groups, torch.Generator().manual_seed(SEED))

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """`feature_relevance_`, divided by its sum, as scikit-learn's feature selection wants it."""
        found = self.feature_relevance_
        return found / found.sum() if found.sum() > 0 else np.full(len(found), 1 / len(found))

    def _outputs(self, inputs: Tensor) -> Tensor:
        """The means of targets, or the probabilities of classes, [N, P]."""
        place = next(self.model_.parameters()).device
        parts = [self.model_.predict(part.to(place), self.num_samples).mean for part in inputs.split(ROWS)]
        return torch.cat(parts).reshape(len(inputs), -1).cpu()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # Not `string`: by scikit-learn's suite such estimators take any object, dictionaries included, for text.
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    def _inputs(self, X: ArrayLike) -> Tensor:
        """Rows, encoded and standardised, as a tensor on the model's device."""
        numbers = self.encode(X)
        return torch.from_numpy(self.input_scaler_.transform(numbers)).to(next(self.model_.parameters()).device)

    def _predict(self, X: ArrayLike) -> Prediction | MixedPrediction:
        """The model's prediction, in standardised units."""
        inputs = self._inputs(X)
        return self.model_.predict(inputs, self.num_samples)


@inside.register(DGPEstimator)
def _inside(estimator: DGPEstimator) -> Inside:
    """Its model, with its scales: what students and exported files are made of."""
    check_is_fitted(estimator, "model_")
    targets = getattr(estimator, "target_scaler_", None)  # a classifier has none
    parts = [estimator.input_scaler_.mean_, estimator.input_scaler_.scale_]
    parts += [np.zeros(0), np.ones(0)] if targets is None else [targets.mean_, targets.scale_]
    centre, scale, target_centre, target_scale = map(torch.from_numpy, parts)
    tail = estimator.target_tail_.values if targets is not None and estimator.target_tail_.changes else None
    scaling = Scaling(centre, scale, target_centre, target_scale, tail)
    return Inside(estimator.model_, scaling, estimator.num_samples)
