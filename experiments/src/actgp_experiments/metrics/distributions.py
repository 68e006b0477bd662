"""How good a predictive distribution is: proper scores and calibration, for a normal or a mixture of normals.

NLPD  = −log p(y)
CRPS  = E|Y − y| − ½ E|Y − Y'|           (Gneiting and Raftery, 2007); in closed form for mixtures of normals
PIT   = P(Y ≤ y), uniform where predictions are calibrated
"""

from dataclasses import dataclass
from math import log, pi

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import MixtureSameFamily, Normal

Predictive = Normal | MixtureSameFamily  # batch shape [N]

PIT_BINS = 20
LEVELS = (0.5, 0.9, 0.95)


@dataclass(frozen=True)
class Scores:
    """Of one predictive distribution at one test set.

    Attributes:
        metrics: rmse, nlpd, crps, coverage_50, coverage_90, coverage_95; and the first three in original units.
        pit: Counts of the probability integral transform in 20 equal bins.
    """

    metrics: dict[str, float]
    pit: list[int]


def scores(predictive: Predictive, y: Float[Tensor, " N"], scale: float = 1.0) -> Scores:
    """All scores, averaged over the test set.

    Args:
        predictive: What was predicted for each y, in standardised units.
        y: The targets, in standardised units.
        scale: What a standardised unit is in original ones.
    """
    rmse = (predictive.mean - y).square().mean().sqrt().item()
    nlpd = -predictive.log_prob(y).mean().item()
    crps = continuous_ranked_probability_score(predictive, y).mean().item()
    transformed = pit(predictive, y)
    metrics = {"rmse": rmse, "nlpd": nlpd, "crps": crps}
    for level in LEVELS:
        inside = (transformed - 0.5).abs() <= level / 2
        metrics[f"coverage_{round(100 * level)}"] = inside.double().mean().item()
    metrics |= {"rmse_original": rmse * scale, "nlpd_original": nlpd + log(scale), "crps_original": crps * scale}
    counts = torch.histc(transformed.double().clamp(0.0, 1.0), PIT_BINS, 0.0, 1.0)  # round-off may exceed one
    return Scores(metrics, [int(count) for count in counts])


def pit(predictive: Predictive, y: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """P(Y_i ≤ y_i)."""
    return predictive.cdf(y)


def continuous_ranked_probability_score(predictive: Predictive, y: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """CRPS of each y_i.

    With E|X| = a(μ, σ²) = 2σ φ(μ/σ) + μ (2Φ(μ/σ) − 1) for X ~ N(μ, σ²), a mixture of N(μ_s, σ_s²) with weights w_s has

        CRPS = Σ_s w_s a(y − μ_s, σ_s²) − ½ Σ_st w_s w_t a(μ_s − μ_t, σ_s² + σ_t²)
    """
    if isinstance(predictive, Normal):
        means, variances = predictive.loc.unsqueeze(-1), predictive.variance.unsqueeze(-1)  # [N, 1]
        weights = torch.ones_like(means)
    else:
        means, variances = predictive.component_distribution.mean, predictive.component_distribution.variance  # [N, S]
        weights = predictive.mixture_distribution.probs
    to_y = (weights * _mean_size(y.unsqueeze(-1) - means, variances)).sum(-1)
    between = torch.zeros_like(to_y)
    for w, mean, variance in zip(weights.unbind(-1), means.unbind(-1), variances.unbind(-1), strict=True):
        sizes = _mean_size(mean.unsqueeze(-1) - means, variance.unsqueeze(-1) + variances)  # [N, S]
        between += w * (weights * sizes).sum(-1)
    return to_y - 0.5 * between


def _mean_size(mean: Tensor, variance: Tensor) -> Tensor:
    """E|X| for X ~ N(mean, variance)."""
    sd = variance.sqrt()
    z = mean / sd
    density = torch.exp(-0.5 * z.square()) / (2 * pi) ** 0.5
    return 2 * sd * density + mean * (2 * torch.special.ndtr(z) - 1)
