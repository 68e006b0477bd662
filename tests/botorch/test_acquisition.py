"""BoTorch's acquisition functions with deep GPs: they can be optimised, and find what they should."""

from collections.abc import Callable

import pytest
import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    qKnowledgeGradient,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.objective import GenericMCObjective, ScalarizedPosteriorTransform
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.models import ModelList
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.sampling.get_sampler import get_sampler
from botorch.sampling.pathwise import get_matheron_path_model
from small_problem import rows, values
from torch import Tensor
from torch.testing import assert_close

from actgp.botorch import DeepGPModel, FunctionsSampler

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
ACQUISITIONS: dict[str, Callable[[Model, Tensor], AcquisitionFunction]] = {
    "LogEI": lambda model, X: LogExpectedImprovement(model, values(X)[:, 0].max()),
    "qLogEI": lambda model, X: qLogExpectedImprovement(model, values(X)[:, 0].max()),
    "qLogNEI": lambda model, X: qLogNoisyExpectedImprovement(model, X, prune_baseline=True),
    "qUCB": lambda model, X: qUpperConfidenceBound(model, 2.0),
}


def best(acquisition: AcquisitionFunction, q: int, **arguments: object) -> tuple[Tensor, Tensor]:
    return optimize_acqf(acquisition, BOUNDS, q, 2, 32, options={"maxiter": 20}, **arguments)


@pytest.mark.parametrize("matched", [False, True], ids=["functions", "moments"])
@pytest.mark.parametrize("name", list(ACQUISITIONS))
@pytest.mark.filterwarnings("ignore:Optimization failed", "ignore:A not p.d., added jitter")
def test_acquisition_functions_are_optimised(model: DeepGPModel, X: Tensor, name: str, matched: bool) -> None:
    acquisition = ACQUISITIONS[name](model.moment_matched() if matched else model, X)
    q = 1 if name == "LogEI" else 2
    at = rows(10 * q, 2, seed=5).reshape(10, q, 2)
    elsewhere = acquisition(at)
    assert elsewhere.shape == (10,)
    assert_close(acquisition(at[:1]), elsewhere[:1])
    _, value = best(acquisition, q)
    assert value >= elsewhere.max()
    fixed, _ = best(acquisition, q, fixed_features={0: 0.3})
    assert_close(fixed[:, 0], torch.full((q,), 0.3, dtype=torch.float64))


@pytest.mark.parametrize("matched", [False, True], ids=["functions", "moments"])
@pytest.mark.filterwarnings("ignore:Optimization failed", "ignore:A not p.d., added jitter")
def test_constraints_on_inputs_and_pending_points(model: DeepGPModel, X: Tensor, matched: bool) -> None:
    acquisition = qLogExpectedImprovement(model.moment_matched() if matched else model, values(X)[:, 0].max())
    # −x₀ − x₁ ≥ −0.7
    below = [(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0], dtype=torch.float64), -0.7)]
    found, value = best(acquisition, 1, inequality_constraints=below)
    assert found.sum() <= 0.7 + 1e-6
    assert value <= best(acquisition, 1)[1] + 1e-6
    at = found.clone().requires_grad_()
    acquisition(at.unsqueeze(0)).sum().backward()
    assert torch.isfinite(at.grad).all()
    # what is evaluated already, though its value is not known yet, is one of the q points
    together = acquisition(torch.cat([found, X[:1]]).unsqueeze(0))
    acquisition.set_X_pending(X[:1])
    assert_close(acquisition(found.unsqueeze(0)), together)


def test_samples_are_the_functions(two: DeepGPModel, points: Tensor) -> None:
    posterior = two.posterior(points)
    sampler = get_sampler(posterior, torch.Size([40]))
    assert isinstance(sampler, FunctionsSampler)
    samples = sampler(posterior)
    assert samples.shape == (40, 2, 3, 2)
    assert_close(samples[:32], posterior.values.movedim(-3, 0))
    assert_close(samples[32:], samples[:8])


@pytest.mark.parametrize("matched", [False, True], ids=["functions", "moments"])
@pytest.mark.filterwarnings("ignore:Optimization failed", "ignore:A not p.d., added jitter")
def test_several_outcomes(two: DeepGPModel, X: Tensor, matched: bool) -> None:
    model = two.moment_matched() if matched else two
    hypervolume = qLogNoisyExpectedHypervolumeImprovement(model, [4.0, 4.0], X, prune_baseline=True)
    found, _ = best(hypervolume, 2)
    assert found.shape == (2, 2)
    first = GenericMCObjective(lambda Y, X=None: Y[..., 0])
    # the second outcome must be above 4.9
    inside = qLogExpectedImprovement(model, torch.tensor(4.0), objective=first, constraints=[lambda Y: 4.9 - Y[..., 1]])
    found, _ = best(inside, 1)
    assert two.posterior(found).mean[0, 1] > 4.7
    weights = torch.tensor([0.0, 1.0], dtype=torch.float64)
    second = qUpperConfidenceBound(model, 0.0, posterior_transform=ScalarizedPosteriorTransform(weights))
    assert_close(best(second, 1)[0], torch.full((1, 2), 0.4, dtype=torch.float64), rtol=0, atol=0.1)


def test_lists_of_models(two: DeepGPModel, points: Tensor) -> None:
    together = ModelList(two.subset_output([0]), two.subset_output([1])).posterior(points)
    assert_close(together.mean, two.posterior(points).mean)


def test_look_ahead(model: DeepGPModel, X: Tensor) -> None:
    moments = model.moment_matched()
    found, _ = best(qKnowledgeGradient(moments, num_fantasies=3), 1)
    assert found.shape == (1, 2)
    assert torch.isfinite(qMaxValueEntropy(moments, rows(50, 2, seed=4))(X[:4].unsqueeze(1))).all()


@pytest.mark.parametrize("outcomes", [1, 2])
def test_fantasies_with_known_noise(X: Tensor, outcomes: int) -> None:
    Y = values(X)[:, :outcomes]
    model = DeepGPModel(X, Y, torch.full_like(Y, 1e-3), num_paths=2, num_functions=8)
    for kind in (model, model.moment_matched()):
        sampler = get_sampler(kind.posterior(X[:2]), torch.Size([3]))
        fantasies = kind.fantasize(rows(10, 2, seed=6).reshape(5, 2, 2), sampler)
        assert fantasies.batch_shape == (3, 5)
        assert fantasies.posterior(X[:4]).mean.shape == (3, 5, 4, outcomes)


def test_thompson_sampling(two: DeepGPModel, model: DeepGPModel, X: Tensor) -> None:
    found, _ = best(PathwiseThompsonSampling(model), 3)
    assert found.shape == (3, 2)
    one, several = get_matheron_path_model(two), get_matheron_path_model(two, torch.Size([300]))
    assert one(X).shape == (18, 2)
    assert_close(one(X[:3]), one(X)[:3])
    paths = several(X.expand(300, 18, 2))
    moments = two.moment_matched().posterior(X)
    # paths of their own, of which the model has four: means agree where data say so
    assert ((paths.mean(0) - moments.mean).abs() < 0.3 * values(X).std()).all()
