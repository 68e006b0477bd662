"""Scores of predictions: distributions of real targets, and probabilities of classes."""

from actgp_experiments.metrics.classes import ClassScores, Reliability, class_scores, predictive_entropy, separation
from actgp_experiments.metrics.distributions import Predictive, Scores, continuous_ranked_probability_score, pit, scores

__all__ = [
    "ClassScores",
    "Predictive",
    "Reliability",
    "Scores",
    "class_scores",
    "continuous_ranked_probability_score",
    "pit",
    "predictive_entropy",
    "scores",
    "separation",
]
