"""What a student learns from: any model that predicts a mixture of normals, or probabilities of classes."""

from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.distil.outputs import Classes, Normals, Outputs, mixture_log_prob
from actgp.distil.scaling import Scaling
from actgp.models import DeepGP, MixedPrediction, Mixture, Prediction

ROWS = 512  # that a teacher is asked at a time


class Predicts(Protocol):
    """A model whose predictions are mixtures of normals, or have probabilities of classes."""

    def predict(self, X: Tensor) -> Prediction | MixedPrediction:
        """The predictive distribution at each row."""


class Inside(NamedTuple):
    """What is inside of something that predicts.

    Attributes:
        model: The model.
        scaling: What stands between data and model; None where they are in the same units.
        num_samples: How many paths its predictions are made of; None where that is not said.
    """

    model: Any
    scaling: Scaling | None = None
    num_samples: int | None = None


@singledispatch
def inside(thing: object) -> Inside:
    """The model in an estimator, with its scales; a model itself. Estimators register their own."""
    if not callable(getattr(thing, "predict", None)):
        raise TypeError(
            f"model must be a model or an estimator of actgp, got {type(thing).__name__}; pass e.g. what "
            "actgp.deep_gp gives, once it is fitted"
        )
    return Inside(thing)


class Values(NamedTuple):
    """Answers about real targets: for each output a mixture of normals, and what its variance consists of."""

    weights: Float[Tensor, "K *N 1"]
    means: Float[Tensor, "K N P"]
    variances: Float[Tensor, "K N P"]
    epistemic: Float[Tensor, "N P"]
    aleatoric: Float[Tensor, "N P"]

    def mean(self) -> Float[Tensor, "N P"]:
        """E[y]."""
        return (self.weights * self.means).sum(0)

    def log_prob(self, y: Float[Tensor, "*Q N P"]) -> Float[Tensor, "*Q N P"]:
        """log p(y), of each output by itself."""
        if y.ndim == 2:
            return mixture_log_prob(y, self.weights, self.means, self.variances)
        return torch.stack([self.log_prob(each) for each in y])


class Labels(NamedTuple):
    """Answers about labels: probabilities, and their variances, of not knowing f."""

    probabilities: Float[Tensor, "N C"]
    spread: Float[Tensor, "N C"]


Answers = Values | Labels


@dataclass(frozen=True)
class Teacher:
    """A model that is asked, in the units of the model.

    Attributes:
        model: The model.
        num_samples: How many paths a deep GP predicts with, or each of a mixture.
    """

    model: Predicts
    num_samples: int

    @torch.no_grad()
    def ask(self, X: Tensor, generator: torch.Generator) -> Answers:
        """Its predictions at rows, in single precision; of a deep GP along other paths for each few rows."""
        parts = [self._answers(part, generator) for part in X.split(ROWS)]
        if isinstance(parts[0], Labels):
            return Labels(*(torch.cat(values).float() for values in zip(*parts, strict=True)))
        weights, means, variances, *moments = zip(*parts, strict=True)
        joined = weights[0] if weights[0].shape[1] == 1 else torch.cat(weights, dim=1)
        return Values(
            *(values.float() for values in (joined, torch.cat(means, dim=1), torch.cat(variances, dim=1))),
            *(torch.cat(values).float() for values in moments),
        )

    def _answers(self, X: Tensor, generator: torch.Generator) -> Answers:
        if isinstance(self.model, DeepGP):
            return answers_of(self.model.predict(X, self.num_samples, generator=generator), len(X))
        if isinstance(self.model, Mixture):
            return answers_of(self.model.predict(X, self.num_samples), len(X))
        return answers_of(self.model.predict(X), len(X))


def answers_of(prediction: Prediction | MixedPrediction, num_rows: int) -> Answers:
    """What a student needs of a prediction."""
    try:
        weights, means, variances = prediction.normal_components()
    except ValueError:
        return _labels(prediction, num_rows)
    if weights.ndim == 1:
        weights = weights[:, None, None]
    moments = (values.reshape(num_rows, -1) for values in (prediction.epistemic, prediction.aleatoric))
    return Values(weights, means, variances, *moments)


def distribution(prediction: Prediction | MixedPrediction, num_rows: int) -> Outputs:
    """A prediction as a student would say it."""
    answers = answers_of(prediction, num_rows)
    if isinstance(answers, Labels):
        return Classes(answers.probabilities, answers.spread.sqrt())
    P = answers.means.shape[2]
    weights, means, variances = (each if P > 1 else each[..., 0] for each in answers[:3])
    mean, epistemic, aleatoric = (
        each if P > 1 else each[:, 0] for each in (answers.mean(), answers.epistemic, answers.aleatoric)
    )
    return Normals(mean, epistemic.sqrt(), aleatoric.sqrt(), weights.expand_as(means), means, variances)


def _labels(prediction: Prediction | MixedPrediction, num_rows: int) -> Labels:
    try:
        p = prediction.probabilities
    except ValueError as error:
        raise TypeError(
            f"a student needs a likelihood of Gaussian noise or of classes, got another ({error}); use the model itself"
        ) from error
    spread = prediction.epistemic.reshape(num_rows, -1)
    if p.ndim == 2 and p.shape[1] == 2 and spread.shape[1] == 1:  # both classes have the same
        spread = spread.expand_as(p)
    if spread.shape != p.shape:
        raise TypeError(
            f"a student needs one label without an order for each row, got probabilities {list(p.shape)} with "
            f"{spread.shape[1]} variances; use the model itself"
        )
    return Labels(p, spread)
