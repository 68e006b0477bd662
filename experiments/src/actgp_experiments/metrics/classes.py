"""How good probabilities of classes are, and whether their uncertainty tells what is unlike the training data.

log-likelihood  = mean of log p(label)
Brier score     = mean of Σ_k (p_k − 1[k = label])²                    (Brier, 1950)
ECE             = Σ_b n_b / N · |accuracy_b − confidence_b|            (Guo et al., 2017), b a bin of max_k p_k
AURC            = mean over n of the error rate among the n predictions of highest confidence  (Geifman et al., 2019)
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from torch import Tensor

from actgp import checks

BINS = 15
ROUND_OFF = 1e-3  # of a sum of probabilities


@dataclass(frozen=True)
class Reliability:
    """Predictions by their confidence, the probability of the predicted class, in 15 equal bins of [0, 1].

    Attributes:
        counts: How many predictions a bin has.
        confidence: Their mean confidence; 0 in an empty bin.
        accuracy: The part of them that is right; 0 in an empty bin.
    """

    counts: list[int]
    confidence: list[float]
    accuracy: list[float]


@dataclass(frozen=True)
class ClassScores:
    """Of one model's probabilities at one test set.

    Attributes:
        metrics: accuracy, log_likelihood, ece, brier, aurc.
        reliability: What ece sums up, for a diagram.
    """

    metrics: dict[str, float]
    reliability: Reliability


def class_scores(probabilities: Float[Tensor, "N K"], labels: Int[Tensor, " N"]) -> ClassScores:
    """All scores, averaged over the test set, in double precision.

    Args:
        probabilities: Of each class; rows sum to one up to round-off, which is taken out.
        labels: The true classes, 0 … K − 1. A label of probability zero counts as one of 2.2e-16, or log p = −36.
    """
    p = _probabilities(probabilities)
    y = _labels(labels, *p.shape).to(p.device)
    confidence, predicted = p.max(-1)  # [N]
    reliability = _reliability(confidence, predicted == y)
    truth = torch.nn.functional.one_hot(y, p.shape[1])  # [N, K]
    metrics = {
        "accuracy": float(accuracy_score(y.cpu(), predicted.cpu())),
        "log_likelihood": -float(log_loss(y.cpu(), p.cpu(), labels=range(p.shape[1]))),
        "ece": _expected_calibration_error(reliability),
        "brier": (p - truth).square().sum(-1).mean().item(),
        "aurc": _area_under_risk_and_coverage(confidence, predicted == y),
    }
    return ClassScores(metrics, reliability)


def predictive_entropy(probabilities: Float[Tensor, "N K"]) -> Float[Tensor, " N"]:
    """−Σ_k p_k log p_k of each row, in nats: 0 where the model is certain, log K where it knows nothing."""
    return torch.special.entr(_probabilities(probabilities)).sum(-1).to(probabilities.dtype)


def separation(uncertainty_inside: Float[Tensor, " N"], uncertainty_outside: Float[Tensor, " M"]) -> float:
    """P(outside > inside) + ½ P(outside = inside) for a pair drawn at random: the area under the ROC curve.

    Args:
        uncertainty_inside: At inputs like the training data; any measure that grows with doubt.
        uncertainty_outside: At inputs unlike them.
    """
    inside = _uncertainty(uncertainty_inside, "uncertainty_inside")
    outside = _uncertainty(uncertainty_outside, "uncertainty_outside")
    is_outside = torch.cat([torch.zeros_like(inside), torch.ones_like(outside)])
    return float(roc_auc_score(is_outside, torch.cat([inside, outside])))


def _reliability(confidence: Float[Tensor, " N"], right: Tensor) -> Reliability:
    edges = torch.linspace(0, 1, BINS + 1, dtype=confidence.dtype, device=confidence.device)
    bins = torch.bucketize(confidence, edges[1:-1])  # (edge, next edge]
    counts = torch.bincount(bins, minlength=BINS)  # [B]
    divisor = counts.clamp_min(1)
    return Reliability(
        counts.tolist(),
        (torch.bincount(bins, confidence, minlength=BINS) / divisor).tolist(),
        (torch.bincount(bins, right.to(confidence.dtype), minlength=BINS) / divisor).tolist(),
    )


def _area_under_risk_and_coverage(confidence: Float[Tensor, " N"], right: Tensor) -> float:
    order = confidence.argsort(descending=True, stable=True)
    errors = (~right[order]).double().cumsum(0)
    return (errors / torch.arange(1, len(errors) + 1, device=errors.device)).mean().item()


def _expected_calibration_error(reliability: Reliability) -> float:
    bins = zip(reliability.counts, reliability.accuracy, reliability.confidence, strict=True)
    return sum(count * abs(accuracy - confidence) for count, accuracy, confidence in bins) / sum(reliability.counts)


def _probabilities(p: Tensor) -> Tensor:
    """[N, K] in double precision, rows summing to one."""
    checks.finite(checks.tensor(p, "probabilities"), "probabilities")
    if p.ndim != 2 or p.shape[0] == 0 or p.shape[1] < 2:
        raise ValueError(
            f"probabilities must have shape [N, K] with a row or more and two classes or more, got {list(p.shape)}; "
            "for p = p(y = 1) alone pass torch.stack([1 - p, p], dim=-1)"
        )
    p = p.detach().double()
    sums = p.sum(-1, keepdim=True)  # [N, 1]
    bad = (p < 0).any(-1) | ((sums.squeeze(-1) - 1).abs() > ROUND_OFF)
    if bad.any():
        row = int(bad.nonzero()[0])
        raise ValueError(
            f"rows of probabilities must be non-negative and sum to 1, got row {row} with smallest entry "
            f"{p[row].min():.3g} and sum {sums[row].item():.3g}; pass logits through softmax first"
        )
    return p / sums


def _labels(y: Tensor, num_rows: int, num_classes: int) -> Tensor:
    if not isinstance(y, Tensor) or y.dtype != torch.int64:
        got = y.dtype if isinstance(y, Tensor) else type(y).__name__
        raise TypeError(f"labels must be an int64 tensor, got {got}; convert them with torch.as_tensor(labels).long()")
    if y.shape != (num_rows,):
        raise ValueError(
            f"labels must have shape [{num_rows}], one for each row of probabilities, got {list(y.shape)}; select the "
            "same rows of both"
        )
    if y.min() < 0 or y.max() >= num_classes:
        raise ValueError(
            f"labels must be 0 to {num_classes - 1}, columns of probabilities, got {int(y.min())} to {int(y.max())}; "
            "number the classes from 0"
        )
    return y


def _uncertainty(value: Tensor, name: str) -> Tensor:
    checks.finite(checks.tensor(value, name), name)
    if value.ndim != 1 or len(value) == 0:
        raise ValueError(f"{name} must have shape [N] with a number or more, got {list(value.shape)}; flatten it")
    return value.detach().double().cpu()
