"""Regression on tables."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted
from torch import Tensor

from actgp import checks
from actgp.distil import LongTail, LongTailed, lengthened, log_slope, shortened
from actgp.estimators.base import LARGEST_SEED, DGPEstimator
from actgp.estimators.fitted import Fitted, Standardisation
from actgp.estimators.long_tails import long_tail_of
from actgp.estimators.scaling import fitted_scaler
from actgp.estimators.targets import check_targets, real_targets
from actgp.likelihoods import ContaminatedGaussianLikelihood
from actgp.models import Mixture
from actgp.persistence import savable
from actgp.tables.clock import Clock

ROWS = 2_048  # at which functions are evaluated at a time

Values = NDArray[np.float64]


@savable
class DGPRegressor(RegressorMixin, DGPEstimator):
    """Deep GPs for real targets, as a scikit-learn estimator: means, standard deviations, intervals, densities.

    By default the model is a mixture (`fit_table`): GPs of one layer, exact on small tables, and networks with a GP
    around them, of two layers on large tables, weighted by how they predict rows they have not seen. If `num_layers`,
    `num_inducing`, `layers` or `recipe` is given, it is the one deep GP that these describe.

    Inputs and targets are standardised inside; everything comes back in the units of y. Several targets, y of shape
    [N, P], share the hidden layers and, relative to their spread, the noise, which depends on the input and has room
    for outliers (`ContaminatedGaussianLikelihood`). A row's prediction does not depend on the rows beside it.

    Args:
        num_layers: How many GP layers one deep GP has.
        num_inducing: M, the inducing variables of each of its layers, of which half are hidden units and half inducing
            points; never more than there are rows.
        effort: "fast", "balanced" or "best": how much time is spent.
        time_budget: Seconds that the default may take at most; GPs of one layer are fitted in any case.
        layers: What its layers are made of: activation, kernel, width and more; as in `deep_gp` by default.
        recipe: How it is trained; as in `actgp.fit` by default.
        num_samples: S, the paths through the hidden layers that predictions are mixtures of.
        random_state: An integer gives the same model in every fit.
        device: Where to train and predict; the CPU by default.
        progress: Whether to show a progress bar, on a terminal.

    Attributes:
        model_: The `Mixture`, or the `DeepGP`, in standardised units.
        recipe_: How a single deep GP was trained; None for a mixture.
        report_: Weights and scores of the members of a mixture; of a single deep GP, the `FitResult` of its training.
        surroundings_: Some rows of X: what `outlyingness` and `feature_relevance_` are computed from.
        student_: What `distill` makes; None before.
        input_scaler_: Standardises X.
        target_tail_: T, where targets have a long tail; T(y) = y for most.
        target_scaler_: Standardises T(y).
        n_features_in_: The number of columns of X.
        feature_names_in_: Their names, if X had names.

    Example:
        >>> import actgp, numpy as np
        >>> X = np.linspace(-2, 2, 50)[:, None]
        >>> recipe = actgp.Recipe(network_steps=50, num_steps=10)
        >>> regressor = actgp.DGPRegressor(num_inducing=10, recipe=recipe, random_state=0).fit(X, np.sin(X[:, 0]))
        >>> mean, std = regressor.predict(X, return_std=True)
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> "DGPRegressor":
        """Trains on rows X [N, D] and targets y, [N] or [N, P]."""
        rows, values = self._checked(X, y, y_numeric=True, multi_output=True)
        values = real_targets(values)
        columns = values.reshape(len(values), -1)  # [N, P]
        names = range(columns.shape[1])
        scaler, tail, clock = fitted_scaler(columns, "y", names), LongTail.none(columns.shape[1]), Clock(None)
        if not self._asks_for_one_deep_gp:
            tail = long_tail_of(rows.standardised(), torch.tensor(columns))
        if tail.changes:
            columns = shortened(torch.tensor(columns), tail.values).numpy()
            scaler = fitted_scaler(columns, "y", names)
        targets = torch.from_numpy(scaler.transform(columns))
        if self._asks_for_one_deep_gp:
            self._train(rows, targets, columns.shape[1], self.layers)
        else:
            self._train_mixture(rows, targets, clock.seconds)
        self.target_scaler_, self.target_tail_ = scaler, tail
        self._single_target = values.ndim == 1
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> Values | tuple[Values, Values]:
        """E[y] at each row; with `return_std`, also the standard deviation of y, noise included."""
        check_is_fitted(self, "model_")
        if self.target_tail_.changes:
            said = self.predict_dist(X)
            assert isinstance(said, LongTailed)
            mean, std = (self._shaped(self._columns(values)) for values in (said.mean, said.std))
            return (mean, std) if return_std else mean
        inputs = self._inputs(X)
        if not return_std and isinstance(self.model_, Mixture):
            return self._in_units(self.model_.predict_mean(inputs, self.num_samples))
        prediction = self.model_.predict(inputs, self.num_samples)
        mean = self._in_units(prediction.mean)
        if not return_std:
            return mean
        std = self._columns(prediction.variance.sqrt()) * self.target_scaler_.scale_
        return mean, self._shaped(std)

    def predict_interval(self, X: ArrayLike, level: float = 0.95) -> tuple[Values, Values]:
        """Lower and upper ends of the central interval that holds y with probability `level`, at each row."""
        lower, upper = self._predict(X).interval(checks.real(level, "level", example=0.95))
        return self._in_units(lower), self._in_units(upper)

    def quantile(self, X: ArrayLike, q: float | Iterable[float]) -> Values:
        """The values that y stays below with probability q, at each row.

        Args:
            X: Rows.
            q: A probability, or several.

        Returns:
            [N], or [N, P] for y of shape [N, P]; for several q there is a last axis, [N, Q] or [N, P, Q].
        """
        found = self._predict(X).quantiles(q if isinstance(q, Iterable) else [q])  # [Q, N, *P]
        values = np.stack([self._in_units(value) for value in found], axis=-1)
        return values if isinstance(q, Iterable) else values[..., 0]

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R², the part of the variance of y that is predicted."""
        check_targets(y)
        return float(super().score(X, y, sample_weight))

    def log_density(self, X: ArrayLike, y: ArrayLike) -> Values:
        """log p(y_i | x_i) at each row, [N], of all targets together; its mean is minus the NLPD."""
        prediction = self._predict(X)
        check_targets(y)
        values = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        check_consistent_length(X, values)
        columns = values.reshape(len(values), -1)
        scale = self.target_scaler_.scale_
        if columns.shape[1] != len(scale):
            raise ValueError(
                f"y must have {len(scale)} columns, as in fit, got {columns.shape[1]}; select those columns"
            )
        y_columns, tail = torch.tensor(columns), self.target_tail_.values
        short = shortened(y_columns, tail).numpy() if self.target_tail_.changes else columns
        scaled = torch.from_numpy(self.target_scaler_.transform(short)).to(next(self.model_.parameters()))
        # T(y) = μ + s z has the density p(z) / s, and y that times T′(y)
        density: Values = prediction.log_prob(scaled).cpu().numpy() - np.log(scale).sum()
        return density + log_slope(y_columns, tail).sum(1).numpy()

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> Values:
        """Draws functions from the posterior, without noise, and evaluates each at all rows.

        Args:
            X: Rows.
            n_samples: How many functions.
            random_state: An integer gives the same functions in every call.

        Returns:
            [N, n_samples], or [N, P, n_samples] for y of shape [N, P].
        """
        inputs = self._inputs(X)
        n_samples = checks.integer(n_samples, "n_samples", minimum=1)
        seed = int(check_random_state(random_state).randint(LARGEST_SEED))
        generator = torch.Generator(inputs.device).manual_seed(seed)
        with torch.no_grad():
            functions = self.model_.sample_functions(n_samples, generator=generator)
            drawn = [torch.cat([f(part).reshape(len(part), -1) for part in inputs.split(ROWS)]) for f in functions]
        values = torch.stack(drawn, dim=-1).cpu().numpy()  # [N, P, K]
        scaler = self.target_scaler_
        values = values * scaler.scale_[:, None] + scaler.mean_[:, None]
        if self.target_tail_.changes:
            values = lengthened(torch.from_numpy(values).mT, self.target_tail_.values).mT.numpy()
        return values[:, 0] if self._single_target else values

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _fitted(self) -> "FittedRegressor":
        targets = Standardisation.of(self.target_scaler_)
        shared = Fitted.shared(self)
        tail, single = self.target_tail_, self._single_target
        return FittedRegressor(**shared, parameters=self, targets=targets, tail=tail, single_target=single)

    def _in_units(self, values: Tensor) -> Values:
        """Quantiles in the units of y; of means only where T(y) = y."""
        columns = self.target_scaler_.inverse_transform(self._columns(values))
        if self.target_tail_.changes:
            columns = lengthened(torch.from_numpy(columns), self.target_tail_.values).numpy()
        return self._shaped(columns)

    def _columns(self, values: Tensor) -> Values:
        """[N, P], also for one output."""
        columns: Values = values.reshape(len(values), -1).cpu().numpy()
        return columns

    def _shaped(self, columns: Values) -> Values:
        """[N] if y was, [N, P] otherwise."""
        return columns[:, 0] if self._single_target else columns


@savable
@dataclass(frozen=True)
class FittedRegressor(Fitted):
    """What a file holds of a regressor.

    Attributes:
        parameters: The regressor, of which a file holds the parameters.
        targets: What standardises T(y).
        tail: T.
        single_target: Whether y is [N], not [N, P].
    """

    parameters: DGPRegressor
    targets: Standardisation
    tail: LongTail
    single_target: bool

    def __post_init__(self) -> None:
        self.check(ContaminatedGaussianLikelihood)
        P = self.model.num_outputs
        if not len(self.targets.mean) == self.tail.values.shape[1] == P or (self.single_target and P > 1):
            raise ValueError(
                f"the model must have one output for a single target, and as many as there are scales of targets, "
                f"{len(self.targets.mean)}, got {P}; fit again"
            )
        self.parameters.check_parameters()

    def estimator(self) -> DGPRegressor:
        estimator = self.parameters
        self.give(estimator)
        estimator.target_scaler_, estimator.target_tail_ = self.targets.scaler(), self.tail
        estimator._single_target = self.single_target
        return estimator
