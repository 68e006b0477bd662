"""This library's steps and predictions."""

from collections.abc import Callable

import torch

import actgp
from actgp.training.data import TensorBatches
from actgp.training.objectives import network_objective
from actgp.training.warm_start import gauss_newton
from benchmarks.problem import Problem


def model_of(problem: Problem) -> actgp.DeepGP:
    """The default model, with weights to carry."""
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(
        problem.input_dim, problem.num_outputs, num_inducing=problem.num_inducing, num_points=0, generator=g
    )
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.mean.normal_(generator=g).mul_(0.1)
    return model


def step(problem: Problem) -> Callable[[], None]:
    """ELBO, backward, Adam."""
    model, (X, y) = model_of(problem), problem.minibatch()
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def run() -> None:
        adam.zero_grad()
        (-model.elbo(X, y, problem.num_data, problem.num_samples)).backward()
        adam.step()

    return run


def network_step(problem: Problem) -> Callable[[], None]:
    """A step of stage 1: the composed means, in whitened coordinates."""
    model, (X, y) = model_of(problem), problem.minibatch()
    fixed = {id(layer.q.raw_scale_tril) for layer in model.gp_layers}
    adam = torch.optim.Adam([p for p in model.parameters() if id(p) not in fixed], lr=1e-3, fused=True)

    def run() -> None:
        adam.zero_grad()
        network_objective(model, X, y).loss.backward()
        adam.step()

    return run


def warm_start(problem: Problem) -> Callable[[], None]:
    """The closed-form covariances between the stages: one pass over the data."""
    model = model_of(problem)
    batches = TensorBatches(*problem.data(), 1_000, torch.Generator())

    @torch.no_grad()
    def run() -> None:
        gauss_newton(model, batches)

    return run


def predict(problem: Problem) -> Callable[[], None]:
    """Mean and variance at many inputs."""
    model, X = model_of(problem), problem.test_inputs()

    def run() -> None:
        prediction = model.predict(X, problem.prediction_samples)
        assert prediction.mean.shape[0] == prediction.variance.shape[0] == len(X)

    return run
