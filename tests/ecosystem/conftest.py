"""Estimators fitted once. Tests of packages that are not installed are skipped."""

import pytest
from quick_table import QUICK, TRAIN, Table, draw_table

import actgp


@pytest.fixture(scope="session")
def table() -> Table:
    return draw_table()


@pytest.fixture(scope="session")
def regressor(table: Table) -> actgp.DGPRegressor:
    return actgp.DGPRegressor(**QUICK).fit(table.X[TRAIN], table.y[TRAIN])


@pytest.fixture(scope="session")
def classifier(table: Table) -> actgp.DGPClassifier:
    return actgp.DGPClassifier(**QUICK).fit(table.X[TRAIN], table.labels[TRAIN])
