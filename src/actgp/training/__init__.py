"""Training: fitting a model to its objective, with progress."""

from actgp.training.fit import FitResult, fit

__all__ = ["FitResult", "fit"]
