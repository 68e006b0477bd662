"""The last-layer Laplace approximation of laplace-torch, around the plain network."""

from collections.abc import Callable

import torch
from laplace import Laplace
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.network import network_of
from benchmarks.problem import Problem


def _approximation(problem: Problem) -> tuple[Laplace, DataLoader]:
    loader = DataLoader(TensorDataset(*problem.data()), batch_size=1_000)
    network = network_of(problem)
    return Laplace(network, "regression", subset_of_weights="last_layer", hessian_structure="full"), loader


def fit(problem: Problem) -> Callable[[], None]:
    """One pass over the data."""
    laplace, loader = _approximation(problem)
    return lambda: laplace.fit(loader)


def predict(problem: Problem) -> Callable[[], None]:
    """Mean and variance at many inputs, in batches."""
    laplace, loader = _approximation(problem)
    laplace.fit(loader)
    X = problem.test_inputs()

    @torch.no_grad()
    def run() -> None:
        for part in X.split(1_000):
            mean, variance = laplace(part)
            assert len(mean) == len(variance) == len(part)

    return run
