"""Estimators: deep GPs behind scikit-learn's interface."""

from actgp.estimators.classifier import DGPClassifier
from actgp.estimators.fitted import Fitted
from actgp.estimators.regressor import DGPRegressor

__all__ = ["DGPClassifier", "DGPRegressor", "Fitted"]
