"""The plain network of the same shape: units and outputs of each layer as the deep GP's."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import torch
from torch import nn

from benchmarks.problem import Problem


def network_of(problem: Problem) -> nn.Sequential:
    """Linear, softplus, linear, for each layer."""
    torch.manual_seed(0)
    M, layers = problem.num_inducing, []
    for inputs, outputs in pairwise(problem.widths):
        layers += [nn.Linear(inputs, M), nn.Softplus(), nn.Linear(M, outputs)]
    return nn.Sequential(*layers)


def step(problem: Problem) -> Callable[[], None]:
    """Squared error, backward, Adam."""
    model, (X, y) = network_of(problem), problem.minibatch()
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def run() -> None:
        adam.zero_grad()
        nn.functional.mse_loss(model(X), y).backward()
        adam.step()

    return run


def half_step(problem: Problem) -> Callable[[], None]:
    """The same with half as many units, as the default model has beside its points."""
    return step(replace(problem, num_inducing=problem.num_inducing // 2))


def predict(problem: Problem) -> Callable[[], None]:
    """Outputs at many inputs."""
    model, X = network_of(problem), problem.test_inputs()

    @torch.no_grad()
    def run() -> None:
        model(X)

    return run
