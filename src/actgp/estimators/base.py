"""What the regressor and the classifier share: parameters, training, the rows to predict, files."""

import os
from abc import ABCMeta, abstractmethod
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
import torch
from gpytorch.likelihoods import Likelihood
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from actgp import checks
from actgp.distil import Inside, Scaling, inside
from actgp.estimators.fitted import Fitted
from actgp.estimators.tables import fitted_scaler, refuse_dates
from actgp.models import Layers, Prediction, deep_gp
from actgp.models.build import NUM_INDUCING, NUM_LAYERS, check_layers
from actgp.persistence import savable_as, save
from actgp.training import Recipe, fit

NUMBERS = ("num_layers", "num_inducing", "num_samples")
PARTS: dict[str, type[Layers | Recipe]] = {"layers": Layers, "recipe": Recipe}  # parameters that have fields
FEWEST_ROWS = 2  # a single one has no spread to be scaled by
LARGEST_SEED = 2**31 - 1


class DGPEstimator(BaseEstimator, metaclass=ABCMeta):
    """A deep GP behind scikit-learn's interface. Abstract: use `DGPRegressor` or `DGPClassifier`.

    What is not given is as `deep_gp` and `fit` have it: the same table gives the same model by either way.
    """

    def __init__(
        self,
        num_layers: int = NUM_LAYERS,
        num_inducing: int = NUM_INDUCING,
        *,
        layers: Layers | None = None,
        recipe: Recipe | None = None,
        num_samples: int = 32,
        random_state: int | np.random.RandomState | None = None,
        device: torch.device | str | None = None,
        progress: bool = False,
    ) -> None:
        self.num_layers = num_layers
        self.num_inducing = num_inducing
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
            **{name: int(getattr(self, name)) for name in NUMBERS},
            "layers": self.layers,
            "recipe": self.recipe,
            "random_state": None if seed is None else int(seed),
            "device": None if device is None else str(device),
            "progress": bool(self.progress),
        }

    def check_parameters(self) -> None:
        """Refuses parameters that `fit` could not use."""
        for name in NUMBERS:
            checks.integer(getattr(self, name), name, minimum=1)
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

    def _checked(self, X: ArrayLike, y: ArrayLike | None, **options: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Validates parameters and data, and leaves `self` as it is: after a refused fit the last one still stands."""
        self.check_parameters()
        refuse_dates(X, "X")
        refuse_dates(y, "y")
        checked: tuple[NDArray[Any], NDArray[Any]] = validate_data(
            clone(self), X, y, dtype=np.float64, ensure_min_samples=FEWEST_ROWS, **options
        )
        return checked

    def _train(
        self,
        X: ArrayLike,
        rows: NDArray[Any],
        y: Tensor,
        num_outputs: int,
        layers: Layers | None,
        likelihood: Likelihood | None = None,
    ) -> None:
        """Builds a model for the rows of X, which have been checked, trains it, and stores what came of it."""
        seed = int(check_random_state(self.random_state).randint(LARGEST_SEED))
        generator = torch.Generator().manual_seed(seed)
        scaler = fitted_scaler(rows, "X")
        inputs = torch.from_numpy(scaler.transform(rows))
        N, D = inputs.shape
        M = min(self.num_inducing, N)
        model = deep_gp(
            D, num_outputs, self.num_layers, M, layers=layers, likelihood=likelihood, generator=generator
        ).double()
        recipe = Recipe.suited_to(model) if self.recipe is None else self.recipe
        fit(model, inputs, y, recipe, device=self.device, generator=generator, progress=self.progress)
        validate_data(self, X, skip_check_array=True)  # the number and the names of the columns
        self.model_, self.recipe_, self.input_scaler_ = model, recipe, scaler

    def _inputs(self, X: ArrayLike) -> Tensor:
        """Validated and standardised rows, as a tensor on the model's device."""
        check_is_fitted(self, "model_")
        refuse_dates(X, "X")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return torch.from_numpy(self.input_scaler_.transform(X)).to(next(self.model_.parameters()).device)

    def _predict(self, X: ArrayLike) -> Prediction:
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
    return Inside(estimator.model_, Scaling(*map(torch.from_numpy, parts)), estimator.num_samples)
