"""Estimators: deep GPs behind scikit-learn's interface; `load` for whatever was saved."""

from actgp.estimators.classifier import DGPClassifier
from actgp.estimators.defaults import recipe_for
from actgp.estimators.loading import load, rebuild_estimator
from actgp.estimators.regressor import DGPRegressor

__all__ = ["DGPClassifier", "DGPRegressor", "load", "rebuild_estimator", "recipe_for"]
