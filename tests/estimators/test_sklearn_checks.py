"""scikit-learn's own suite, in full."""

from collections.abc import Callable

from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import actgp

# Rates are high and steps few: the suite fits about fifty times.
QUICK = actgp.Recipe(network_steps=10, num_steps=1, network_rate=0.5)


@parametrize_with_checks(
    [
        actgp.DGPRegressor(num_layers=2, num_inducing=8, recipe=QUICK, num_samples=2),
        actgp.DGPClassifier(num_layers=2, num_inducing=8, recipe=QUICK, num_samples=2),
    ]
)
def test_scikit_learns_checks(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)
