"""Classification on tables."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gpytorch.likelihoods import BernoulliLikelihood, Likelihood, SoftmaxLikelihood
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from actgp.estimators.base import DGPEstimator
from actgp.estimators.fitted import Fitted, Labels
from actgp.likelihoods import BernoulliLogitLikelihood
from actgp.models import DeepGP, MixedPrediction, Mixture, Prediction
from actgp.models.build import check_layers
from actgp.models.edge import forget_beyond
from actgp.persistence import savable

Values = NDArray[np.float64]


@savable
class DGPClassifier(ClassifierMixin, DGPEstimator):
    """Classes, as a scikit-learn estimator: their probabilities, and how far these are known.

    By default the model is a mixture (`fit_table`): GPs of one layer, and networks with a GP around them, weighted by
    how they predict rows they have not seen. If `num_layers`, `num_inducing`, `layers` or `recipe` is given, it is the
    one deep GP that these describe.

    Two classes have a single latent function; more have one function for each class and a softmax. Labels may be
    strings. Inputs are standardised inside. A row's prediction does not depend on the rows beside it.

    Args:
        num_layers: How many GP layers one deep GP has.
        num_inducing: M, the inducing variables of each of its layers, of which half are hidden units and half inducing
            points; never more than there are rows.
        effort: "fast", "balanced" or "best": how much time is spent.
        time_budget: Seconds that the default may take at most; GPs of one layer are fitted in any case.
        layers: What its layers are made of: activation, kernel, width and more; as in `deep_gp` by default, but with a
            horizon at the edge of the data (`forget_beyond`), also where `Layers` has none.
        recipe: How it is trained; as in `actgp.fit` by default.
        num_samples: S, the paths through the hidden layers that predictions are mixtures of.
        random_state: An integer gives the same model in every fit.
        device: Where to train and predict; the CPU by default.
        progress: Whether to show a progress bar, on a terminal.

    Attributes:
        classes_: The labels, sorted: the columns of `predict_proba`.
        model_: The `Mixture`, or the `DeepGP`, in standardised units.
        recipe_: How a single deep GP was trained; None for a mixture.
        report_: Weights and scores of the members of a mixture; of a single deep GP, the `FitResult` of its training.
        surroundings_: Some rows of X: what `outlyingness` and `feature_relevance_` are computed from.
        student_: What `distill` makes; None before.
        input_scaler_: Standardises X.
        n_features_in_: The number of columns of X.
        feature_names_in_: Their names, if X had names.

    Example:
        >>> import actgp, numpy as np
        >>> X = np.linspace(-2, 2, 50)[:, None]
        >>> recipe = actgp.Recipe(network_steps=50, num_steps=10)
        >>> classifier = actgp.DGPClassifier(num_inducing=10, recipe=recipe, random_state=0)
        >>> probabilities = classifier.fit(X, np.where(X[:, 0] > 0, "right", "left")).predict_proba(X)
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> "DGPClassifier":
        """Trains on rows X [N, D] and labels y [N]."""
        rows, labels = self._checked(X, y)
        check_classification_targets(labels)
        encoder = LabelEncoder().fit(labels)
        C = len(encoder.classes_)
        if C < 2:
            raise ValueError(
                f"y must hold at least two classes, got 1 class, {encoder.classes_.tolist()[0]!r}; "
                "add rows of another class"
            )
        binary = C == 2
        likelihood: Likelihood = (
            BernoulliLikelihood() if binary else SoftmaxLikelihood(num_classes=C, mixing_weights=False)
        )
        numbers = torch.from_numpy(encoder.transform(labels))
        if self._asks_for_one_deep_gp:
            layers = check_layers(self.layers)
            self._train(rows, numbers, 1 if binary else C, layers, likelihood)
            if layers.horizon is None:
                assert isinstance(self.model_, DeepGP)
                forget_beyond(self.model_, torch.from_numpy(self.input_scaler_.transform(rows.numbers)))
        else:
            self._train_mixture(rows, numbers)
        self.classes_ = encoder.classes_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable label of each row."""
        probabilities = self.predict_proba(X)
        labels: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> Values:
        """The probability of each class at each row, [N, C], in the order of `classes_`."""
        prediction = self._predict(X)
        if len(self.classes_) == 2:
            return _log_probabilities_of_two(prediction).exp().cpu().numpy()
        return prediction.probabilities.cpu().numpy()

    def predict_log_proba(self, X: ArrayLike) -> Values:
        """The logarithm of `predict_proba`; for two classes, accurate also where a probability rounds to zero."""
        prediction = self._predict(X)
        if len(self.classes_) == 2:
            return _log_probabilities_of_two(prediction).cpu().numpy()
        smallest = torch.finfo(torch.float64).tiny
        return prediction.probabilities.clamp_min(smallest).log().cpu().numpy()

    def _fitted(self) -> "FittedClassifier":
        return FittedClassifier(**Fitted.shared(self), parameters=self, classes=Labels.of(self.classes_))


@savable
@dataclass(frozen=True)
class FittedClassifier(Fitted):
    """What a file holds of a classifier.

    Attributes:
        parameters: The classifier, of which a file holds the parameters.
        classes: The labels.
    """

    parameters: DGPClassifier
    classes: Labels

    def __post_init__(self) -> None:
        C, P = len(self.classes.values), self.model.num_outputs
        of_two = BernoulliLogitLikelihood if isinstance(self.model, Mixture) else BernoulliLikelihood
        self.check(of_two if C == 2 else SoftmaxLikelihood)
        if (1 if C == 2 else C) != P:
            raise ValueError(f"the model must have the outputs that {C} classes need, got {P}; fit again")
        self.parameters.check_parameters()

    def estimator(self) -> DGPClassifier:
        estimator = self.parameters
        self.give(estimator)
        estimator.classes_ = self.classes.array()
        return estimator


def _log_probabilities_of_two(prediction: Prediction | MixedPrediction) -> Float[Tensor, "N 2"]:
    like = prediction.mean.reshape(len(prediction.mean), -1)[:, 0]  # [N]
    labels = (torch.full_like(like, label) for label in (0.0, 1.0))
    return torch.stack([prediction.log_prob(y) for y in labels], dim=-1)
