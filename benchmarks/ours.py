"""This library's steps and predictions."""

from collections.abc import Callable, Iterable

import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor

import actgp
from actgp.training.compiled import compiled
from actgp.training.data import TensorBatches
from actgp.training.objectives import Evaluation, network_objective, objective_along
from actgp.training.recording import Maker, RecordedObjective
from actgp.training.replay import RECORD_AFTER, replayed
from actgp.training.warm_start import gauss_newton
from benchmarks.problem import Problem


def model_of(problem: Problem, num_points: int | None = 0) -> actgp.DeepGP:
    """The default model with Gaussian noise, as its peers have; without points beside its units, unless wanted."""
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(
        problem.input_dim,
        problem.num_outputs,
        num_inducing=problem.num_inducing,
        num_points=num_points,
        likelihood=GaussianLikelihood(),
        generator=g,
    )
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.mean.normal_(generator=g).mul_(0.1)
    return model


def step(problem: Problem, num_points: int | None = 0, make: Maker | None = replayed) -> Callable[[], None]:
    """ELBO, backward, Adam, as `fit` has them: recorded once, then replayed."""
    model, (X, y) = model_of(problem, num_points), problem.minibatch()
    recipe = actgp.Recipe(objective="elbo", num_samples=problem.num_samples)

    def along(X: Tensor, y: Tensor, *noises: Tensor) -> Evaluation:
        return objective_along(model, X, y, noises, problem.num_data, recipe, 1.0)

    objective = along if make is None else RecordedObjective(model, along, make)
    return _stepping(model.parameters(), lambda: objective(X, y, *model.noises(X, problem.num_samples)))


def step_with_points(problem: Problem) -> Callable[[], None]:
    """The same, half of the inducing variables being points, as by default."""
    return step(problem, None)


def compiled_step(problem: Problem) -> Callable[[], None]:
    """The same, compiled."""
    return step(problem, make=compiled)


def plain_step(problem: Problem) -> Callable[[], None]:
    """The same, not recorded: what `elbo` and `backward` do by themselves."""
    return step(problem, make=None)


def own_step(problem: Problem) -> Callable[[], None]:
    """The same in a loop of one's own, as a tensor that goes backwards: recorded."""
    model, (X, y) = model_of(problem), problem.minibatch()
    elbo = actgp.RecordedELBO(model, problem.num_data, problem.num_samples)
    for _ in range(RECORD_AFTER):
        elbo(X, y)
    return _stepping(model.parameters(), lambda: -elbo(X, y))


def network_step(problem: Problem, num_points: int | None = 0, make: Maker | None = replayed) -> Callable[[], None]:
    """A step of stage 1: the composed means, in whitened coordinates; points have no means yet."""
    model, (X, y) = model_of(problem, num_points), problem.minibatch()
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.mean[layer.q.blocks[0] :] = 0.0
            layer.q.raw_scale_tril.requires_grad_(False)

    def alone(X: Tensor, y: Tensor) -> Evaluation:
        return network_objective(model, X, y)

    objective = alone if make is None else RecordedObjective(model, alone, make)
    return _stepping([p for p in model.parameters() if p.requires_grad], lambda: objective(X, y))


def network_step_with_points(problem: Problem) -> Callable[[], None]:
    """The same of the default model, in which half of the variables are units."""
    return network_step(problem, None)


def compiled_network_step(problem: Problem) -> Callable[[], None]:
    """The same, compiled."""
    return network_step(problem, make=compiled)


def plain_network_step(problem: Problem) -> Callable[[], None]:
    """The same, not recorded."""
    return network_step(problem, make=None)


def _stepping(parameters: Iterable[Tensor], evaluate: Callable[[], Evaluation | Tensor]) -> Callable[[], None]:
    adam = torch.optim.Adam(parameters, lr=1e-3, fused=True)

    def run() -> None:
        adam.zero_grad()
        evaluate().backward()
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
