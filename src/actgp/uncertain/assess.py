"""How good predictions are on some rows, those of a network alone and those of a model around it.

A network alone predicts its outputs, and nothing more: for Gaussian noise one variance for all rows, the mean squared
error on rows that say it; for labels and counts what the likelihood makes of the outputs.
"""

from dataclasses import dataclass

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import GaussianLikelihood, Likelihood
from jaxtyping import Float
from torch import Tensor

from actgp.likelihoods import adapter_of
from actgp.models import Prediction

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of intervals
BINS = 10  # of the probability of the class that is predicted
TINY = 1e-30


@dataclass(frozen=True)
class Assessment:
    """Scores on some rows.

    Attributes:
        rows: How many.
        error: The root mean squared error; for labels the part that is not predicted right.
        nlpd: The negative log predictive density, −mean log p(y_i); for labels −mean log-likelihood.
        coverage: The part of the targets inside of 95 % intervals; for labels the mean probability of the class that is
            predicted, which should be the accuracy.
        calibration: Pairs of what is promised and what is found: levels of intervals, and the part of the targets that
            lie inside; for labels mean probabilities in each of ten bins, and how often the class was right.
        labels: Whether targets are labels.
    """

    rows: int
    error: float
    nlpd: float
    coverage: float
    calibration: tuple[tuple[float, float], ...]
    labels: bool


def network_alone(outputs: Float[Tensor, "N P"], likelihood: Likelihood, variance: float | None) -> Prediction:
    """What a network predicts without a GP around it.

    Args:
        outputs: Its outputs.
        likelihood: Of its targets, as it was before anything was fitted; Gaussian noise is replaced.
        variance: Of Gaussian noise; None for other likelihoods.
    """
    if variance is not None:
        likelihood = GaussianLikelihood(noise_constraint=GreaterThan(TINY)).to(outputs)
        likelihood.noise = max(variance, 2 * TINY)
    return Prediction(outputs[None], torch.zeros_like(outputs)[None], likelihood)


@torch.no_grad()
def assess(prediction: Prediction, y: Tensor) -> Assessment:
    """Scores of predictions for targets."""
    if _is_of_labels(prediction):
        return _of_labels(prediction, y)
    _, N, P = prediction.component_means.shape
    values = y.reshape(N, P).to(prediction.component_means.dtype)
    calibration = []
    for level in LEVELS:
        lower, upper = (end.reshape(N, P) for end in prediction.interval(level))
        calibration.append((level, ((values >= lower) & (values <= upper)).double().mean().item()))
    return Assessment(
        rows=N,
        error=(prediction.mean.reshape(N, P) - values).square().mean().sqrt().item(),
        nlpd=-prediction.log_prob(y).mean().item(),
        coverage=calibration[-1][1],
        calibration=tuple(calibration),
        labels=False,
    )


def _of_labels(prediction: Prediction, y: Tensor) -> Assessment:
    probabilities = prediction.probabilities
    confidence, predicted = probabilities.max(-1)  # [N]
    right = (predicted == y.reshape(predicted.shape)).double()
    bins = (confidence * BINS).long().clamp_max(BINS - 1)
    calibration = [
        (confidence[bins == i].mean().item(), right[bins == i].mean().item()) for i in range(BINS) if (bins == i).any()
    ]
    return Assessment(
        rows=len(right),
        error=1 - right.mean().item(),
        nlpd=-prediction.log_prob(y).mean().item(),
        coverage=confidence.mean().item(),
        calibration=tuple(calibration),
        labels=True,
    )


def _is_of_labels(prediction: Prediction) -> bool:
    return adapter_of(prediction.likelihood).has_temperature
