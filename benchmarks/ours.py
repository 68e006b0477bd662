"""This library's steps and predictions."""

from collections.abc import Callable, Iterable

import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor

import actgp
from actgp.training.data import TensorBatches
from actgp.training.objectives import network_objective
from actgp.training.warm_start import gauss_newton
from benchmarks.problem import Problem


def model_of(problem: Problem, num_points: int | None = 0) -> actgp.DeepGP:
    """The default model with Gaussian noise, as its peers have; without points beside its units, unless wanted."""
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(
        problem.input_dim,
        problem.num_outputs,
        num_inducing=problem.num_inducing,
        layers=actgp.Layers(num_points=num_points),
        likelihood=GaussianLikelihood(),
        generator=g,
    )
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.raw_mean.normal_(generator=g).mul_(0.1)
    return model


def step(problem: Problem, num_points: int | None = 0) -> Callable[[], None]:
    """ELBO, backward, Adam."""
    model, (X, y) = model_of(problem, num_points), problem.minibatch()
    return _stepping(model.parameters(), lambda: -model.elbo(X, y, problem.num_data, problem.num_samples))


def step_with_points(problem: Problem) -> Callable[[], None]:
    """The same, half of the inducing variables being points, as by default."""
    return step(problem, None)


def network_step(problem: Problem, num_points: int | None = 0) -> Callable[[], None]:
    """A step of stage 1: the composed means, in whitened coordinates; points have no means yet."""
    model, (X, y) = model_of(problem, num_points), problem.minibatch()
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.mean[layer.q.blocks[0] :] = 0.0
            layer.q.raw_scale_tril.requires_grad_(False)
    return _stepping((p for p in model.parameters() if p.requires_grad), lambda: network_objective(model, X, y).loss)


def network_step_with_points(problem: Problem) -> Callable[[], None]:
    """The same of the default model, in which half of the variables are units."""
    return network_step(problem, None)


def _stepping(parameters: Iterable[Tensor], loss: Callable[[], Tensor]) -> Callable[[], None]:
    adam = torch.optim.Adam(parameters, lr=1e-3, fused=True)

    def run() -> None:
        adam.zero_grad()
        loss().backward()
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
