"""scikit-learn's own suite, in full."""

from collections.abc import Callable

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import actgp

# Rates are high and steps few: the suite fits about fifty times.
QUICK = actgp.Recipe(network_steps=15, num_steps=1, network_rate=0.3)


@pytest.mark.filterwarnings("ignore::UserWarning")  # the suite warns of checks that do not apply
@parametrize_with_checks(
    [
        actgp.DGPRegressor(num_inducing=10, recipe=QUICK, num_samples=4),
        actgp.DGPClassifier(num_inducing=10, recipe=QUICK, num_samples=4),
    ]
)
def test_scikit_learns_checks(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)
