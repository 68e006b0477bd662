"""What the regressor and the classifier share: parameters, scaling of the inputs, training, prediction, files."""

import os
from abc import ABCMeta, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from gpytorch.likelihoods import Likelihood
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from actgp import checks
from actgp.activations import Activation
from actgp.activations import activation as activation_of
from actgp.estimators.dates import refuse_dates
from actgp.estimators.defaults import hidden_layers, recipe_for
from actgp.estimators.fitted import Fitted, Scales
from actgp.estimators.scaling import fitted_scaler
from actgp.models import DeepGP, Prediction, deep_gp
from actgp.models.build import KernelName
from actgp.persistence import savable_as, save
from actgp.training import Recipe, fit

NUMBERS = ("num_layers", "num_inducing", "num_samples")
FEWEST_ROWS = 2  # a single one has no spread to be scaled by
LARGEST_SEED = 2**31 - 1


class Trained(NamedTuple):
    """What training gives: the scaler of the inputs, the model, and how it was trained."""

    scaler: StandardScaler
    model: DeepGP
    recipe: Recipe


class DGPEstimator(BaseEstimator, metaclass=ABCMeta):
    """A deep GP behind scikit-learn's interface. Abstract: use `DGPRegressor` or `DGPClassifier`."""

    def __init__(
        self,
        num_layers: int = 2,
        num_inducing: int = 128,
        *,
        activation: str | Activation | None = None,
        kernel: KernelName = "matched",
        recipe: Recipe | None = None,
        num_samples: int = 32,
        random_state: int | np.random.RandomState | None = None,
        device: torch.device | str | None = None,
        progress: bool = False,
    ) -> None:
        self.num_layers = num_layers
        self.num_inducing = num_inducing
        self.activation = activation
        self.kernel = kernel
        self.recipe = recipe
        self.num_samples = num_samples
        self.random_state = random_state
        self.device = device
        self.progress = progress

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
            "activation": self.activation,
            "kernel": self.kernel,
            "recipe": self.recipe,
            "random_state": None if seed is None else int(seed),
            "device": None if device is None else str(device),
            "progress": bool(self.progress),
        }

    @abstractmethod
    def _fitted(self) -> Fitted:
        """What a file holds."""

    def _shared(self) -> dict[str, Any]:
        """What every estimator has after `fit`, for `Fitted`."""
        names = getattr(self, "feature_names_in_", None)
        columns = None if names is None else names.tolist()
        inputs = Scales.of(self.input_scaler_)
        return {"model": self.model_, "recipe": self.recipe_, "inputs": inputs, "columns": columns}

    def _checked(self, X: ArrayLike, y: ArrayLike | None, **options: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Parameters and data, checked; `self` stays as it is, so that a refused fit leaves the last one in place."""
        self.check_parameters()
        refuse_dates(X, "X")
        refuse_dates(y, "y")
        checked: tuple[NDArray[Any], NDArray[Any]] = validate_data(
            clone(self), X, y, dtype=np.float64, ensure_min_samples=FEWEST_ROWS, **options
        )
        return checked

    def check_parameters(self) -> None:
        """Refuses parameters that `fit` could not use."""
        for name in NUMBERS:
            checks.integer(getattr(self, name), name, minimum=1)
        activation_of("softplus" if self.activation is None else self.activation)
        checks.choice(self.kernel, "kernel", ("arccosine", "matched"))
        if self.recipe is not None and not isinstance(self.recipe, Recipe):
            raise TypeError(
                f"recipe must be an actgp.Recipe or None, got {type(self.recipe).__name__}; "
                "pass e.g. actgp.Recipe(num_steps=500)"
            )
        check_random_state(self.random_state)

    def _train(
        self,
        X: NDArray[Any],
        y: Tensor,
        num_outputs: int,
        likelihood: Likelihood | None,
        horizon: float | None = None,
    ) -> Trained:
        """Builds a model for checked data, and trains it."""
        seed = int(check_random_state(self.random_state).randint(LARGEST_SEED))
        generator = torch.Generator().manual_seed(seed)
        scaler = fitted_scaler(X, "X")
        inputs = torch.from_numpy(scaler.transform(X))
        hidden = hidden_layers(inputs.shape[1])
        model = deep_gp(
            inputs.shape[1],
            num_outputs,
            self.num_layers,
            min(self.num_inducing, len(inputs)),
            hidden_dim=hidden.width,
            activation="softplus" if self.activation is None else self.activation,
            kernel=self.kernel,
            prior_mean=hidden.prior_mean,
            likelihood=likelihood,
            horizon=horizon,
            generator=generator,
        ).double()
        recipe = recipe_for(model, len(inputs)) if self.recipe is None else self.recipe
        fit(model, inputs, y, recipe, device=self.device, generator=generator, progress=self.progress)
        return Trained(scaler, model, recipe)

    def _keep(self, X: ArrayLike, trained: Trained) -> Self:
        """Takes over what was trained, and the number and names of the columns."""
        validate_data(self, X, skip_check_array=True)
        self.input_scaler_, self.model_, self.recipe_ = trained
        return self

    def _inputs(self, X: ArrayLike) -> Tensor:
        """Rows as the model wants them."""
        check_is_fitted(self, "model_")
        refuse_dates(X, "X")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return torch.from_numpy(self.input_scaler_.transform(X)).to(next(self.model_.parameters()).device)

    def _predict(self, X: ArrayLike) -> Prediction:
        """In the units of the model."""
        inputs = self._inputs(X)
        return self.model_.predict(inputs, self.num_samples)
