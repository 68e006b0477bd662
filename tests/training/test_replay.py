"""Recorded steps, replayed: the same operations, the same numbers."""

from collections.abc import Callable

import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood, Likelihood, SoftmaxLikelihood, StudentTLikelihood
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

import actgp
from actgp import Recipe
from actgp.layers import whitened
from actgp.likelihoods import ContaminatedGaussianLikelihood
from actgp.training import replay, stages
from actgp.training.objectives import Evaluation, network_objective, objective_along
from actgp.training.recording import RecordedObjective, replayable
from actgp.training.replay import replayed


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(number: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    X = torch.randn(number, 3, generator=generator(1), dtype=dtype)
    return X, torch.sin(2 * X[:, :1]) + 0.1 * torch.randn(number, 1, generator=generator(2), dtype=dtype)


def model_of(dtype: torch.dtype, num_points: int = 4, likelihood: Likelihood | None = None) -> actgp.DeepGP:
    g = generator(0)
    model = actgp.deep_gp(3, 1, 2, 8, num_points=num_points, likelihood=likelihood, generator=g).to(dtype)
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.mean.normal_(generator=g).mul_(0.3)
            layer.q.raw_scale_tril.normal_(generator=g).mul_(0.3)
    return model


def along(model: actgp.DeepGP, name: str = "predictive") -> Callable[..., Evaluation]:
    recipe = Recipe(objective=name, num_samples=2)
    return lambda X, y, *noises: objective_along(model, X, y, noises, 100, recipe, 0.3)


def evaluated(model: actgp.DeepGP, objective: Callable[..., Evaluation], *inputs: Tensor) -> list[Tensor]:
    model.zero_grad()
    evaluation = objective(*inputs)
    evaluation.backward()
    gradients = [torch.empty(0) if p.grad is None else p.grad for p in model.parameters()]
    return [evaluation.loss.detach(), evaluation.objective.detach(), *gradients]


@pytest.mark.parametrize("num_points", [0, 4])
@pytest.mark.parametrize("likelihood", [GaussianLikelihood, ContaminatedGaussianLikelihood])
@pytest.mark.parametrize("name", ["elbo", "predictive"])
def test_steps_are_the_same_to_the_last_bit(
    num_points: int, likelihood: type[Likelihood], name: str, dtype: torch.dtype
) -> None:
    model, (X, y) = model_of(dtype, num_points, likelihood()), rows(16, dtype)
    objective = along(model, name)
    recorded = RecordedObjective(model, objective, replayed)
    for seed in range(3):
        inputs = (X + seed, y, *model.noises(X, 2, generator=generator(seed)))
        for ours, theirs in zip(*(evaluated(model, each, *inputs) for each in (recorded, objective)), strict=True):
            assert torch.equal(ours, theirs)
        with torch.no_grad():  # what was recorded holds for other values
            for p in model.parameters():
                p.add_(0.05 * torch.randn(p.shape, generator=generator(3 + seed), dtype=dtype))
    assert len(recorded.functions) == 1


@pytest.mark.parametrize("num_points", [0, 4])
def test_so_are_those_of_the_network(num_points: int, dtype: torch.dtype) -> None:
    model, (X, y) = model_of(dtype, num_points), rows(16, dtype)
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.mean[layer.q.blocks[0] :] = 0.0
    recorded = RecordedObjective(model, lambda X, y: network_objective(model, X, y), replayed)
    for shift in range(2):
        both = (evaluated(model, each, X + shift, y) for each in (recorded, recorded.objective))
        for ours, theirs in zip(*both, strict=True):
            assert torch.equal(ours, theirs)


def test_views_writes_and_lists_are_replayed() -> None:
    constant = torch.arange(6.0).view(2, 3)

    def function(p: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        a = x.clone()
        a.T[1:].mul_(2.0)  # through a view of a view
        a.diagonal().add_(p[0])
        first, second = a.unbind()  # a list
        torch.mul(first, second, out=a[0])  # what was seen through another view
        torch._foreach_add_([a[1]], 1.0)
        L, info = torch.linalg.cholesky_ex(a @ a.T + torch.eye(2))
        unused = p.exp()
        assert unused.shape == p.shape
        b = torch.ops.aten._to_copy(a)  # of the same precision, yet memory of its own
        b.add_(torch.ops.aten._to_copy(x, dtype=x.dtype)).add_(x.double().float())
        return a, a, b, first + constant[1], L.mT, info, p[1:] * a.sum(), p[:2], x.view(-1)[:2]

    p, x = torch.randn(3, generator=generator(0)), torch.randn(2, 3, generator=generator(1))
    recorded = make_fx(function)(p, x)
    function_of_x = replayed(recorded, [p], [x])
    for seed in range(2):
        p.copy_(torch.randn(3, generator=generator(seed)))  # in its place
        x = torch.randn(2, 3, generator=generator(2 + seed))
        found = function_of_x(x)
        for ours, theirs in zip(found, function(p, x.clone()), strict=True):
            assert torch.equal(ours, theirs)
            assert ours.stride() == theirs.stride()
        memory = [values.untyped_storage().data_ptr() for values in (p, x, constant, *found)]
        assert len(set(memory)) == len(memory)  # what is given away is nobody else's


def test_c_functions_with_other_defaults_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(2, 5, generator=generator(0))
    wanted = nn.functional.mse_loss(x, y)
    assert torch._C._nn.mse_loss(x, y).shape != wanted.shape  # it does not reduce, unlike the operator
    monkeypatch.setattr(replay, "NAMESPACES", (torch._C._nn, *replay.NAMESPACES))
    recorded = make_fx(lambda x, y: (nn.functional.mse_loss(x, y), x.exp()))(x, y)
    loss, _ = replayed(recorded, [], [x, y])(x, y)
    assert torch.equal(loss, wanted)
    monkeypatch.setattr(replay, "_c_function", lambda _: torch.cumsum)  # which wants a number
    loss, _ = replayed(recorded, [], [x, y])(x, y)
    assert torch.equal(loss, wanted)


def test_results_are_not_overwritten_by_the_next_step_and_add_up() -> None:
    model, (X, y) = model_of(torch.float64), rows(16, torch.float64)
    recorded = RecordedObjective(model, lambda X, y: network_objective(model, X, y), replayed)
    weights = model.gp_layers[0].features.activated.weights
    singles = []
    for inputs in (X, -X):
        evaluated(model, recorded, inputs, y)
        singles.append(weights.grad)
    kept = [single.clone() for single in singles]
    model.zero_grad()
    for inputs in (X, -X):
        recorded(inputs, y).backward()
    assert all(torch.equal(single, before) for single, before in zip(singles, kept, strict=True))
    torch.testing.assert_close(weights.grad, singles[0] + singles[1])
    assert all(p.grad is None or p.grad.stride() == p.stride() for p in model.parameters())


def test_a_shape_is_recorded_when_it_has_been_seen_often() -> None:
    model, (X, y) = model_of(torch.float32), rows(16, torch.float32)
    recorded = RecordedObjective(model, lambda X, y: network_objective(model, X, y), replayed, after=2)
    found = [recorded(X, y).known is not None for _ in range(4)]
    assert found == [False, False, True, True]
    assert recorded(X[:9], y[:9]).known is None
    assert recorded(X[7:], y[7:]).known is None  # elsewhere in its memory


def test_parameters_that_move_or_have_hooks_are_noticed() -> None:
    model, (X, y) = model_of(torch.float64), rows(16, torch.float64)
    recorded = RecordedObjective(model, lambda X, y: network_objective(model, X, y), replayed)
    m = model.gp_layers[0].q.mean
    before = evaluated(model, recorded, X, y)
    m.data = m.data.clone() * 2
    changed = [evaluated(model, each, X, y) for each in (recorded, recorded.objective)]
    assert not torch.equal(before[0], changed[0][0])
    assert all(torch.equal(*pair) for pair in zip(*changed, strict=True))
    seen = []
    m.register_hook(seen.append)
    evaluated(model, recorded, X, y)
    assert len(seen) == 1


def test_parameters_and_parts_that_are_replaced_are_noticed() -> None:
    model, (X, y) = model_of(torch.float64), rows(16, torch.float64)
    recorded = RecordedObjective(model, lambda X, y: network_objective(model, X, y), replayed)
    layer = model.gp_layers[0]
    evaluated(model, recorded, X, y)
    layer.q.mean = nn.Parameter(2 * layer.q.mean.detach())
    both = [evaluated(model, each, X, y) for each in (recorded, recorded.objective)]
    assert all(torch.equal(*pair) for pair in zip(*both, strict=True))
    assert recorded(X, y).known is not None
    layer.kernel = actgp.deep_gp(3, 1, 2, 8, kernel="matched").double().gp_layers[0].kernel
    both = [evaluated(model, each, X, y) for each in (recorded, recorded.objective)]
    assert all(torch.equal(*pair) for pair in zip(*both, strict=True))
    assert recorded(X, y).known is None


def test_a_step_may_fail_when_it_is_recorded() -> None:
    model, (X, y) = model_of(torch.float64), rows(16, torch.float64)
    m = model.gp_layers[1].q.mean
    recorded, good = RecordedObjective(model, along(model), replayed), m.detach().clone()
    inputs = (X, y, *model.noises(X, 2, generator=generator(0)))
    for values in (torch.full_like(m, 1e200), good):
        with torch.no_grad():
            m.copy_(values)
        both = [evaluated(model, each, *inputs) for each in (recorded, recorded.objective)]
        for ours, theirs in zip(*both, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
    assert recorded(*inputs).known is not None


def test_frozen_parameters_may_be_changed_and_unused_ones_have_no_gradient() -> None:
    model, (X, y) = model_of(torch.float64), rows(16, torch.float64)
    raw = model.gp_layers[0].kernel.raw_lengthscale.requires_grad_(False)
    recorded = RecordedObjective(model, lambda X, y: network_objective(model, X, y), replayed)
    losses = []
    for _ in range(3):
        both = [evaluated(model, each, X, y) for each in (recorded, recorded.objective)]
        assert all(torch.equal(*pair) for pair in zip(*both, strict=True))
        losses.append(both[0][0].item())
        raw.add_(0.3)
    assert len(set(losses)) == 3
    model.zero_grad()
    recorded(X, y).backward()
    assert raw.grad is None
    assert all(layer.q.raw_scale_tril.grad is None for layer in model.gp_layers)


def test_a_loss_that_is_not_finite_is_left_to_the_eager_step() -> None:
    model, (X, y) = model_of(torch.float64, 0), rows(16, torch.float64)  # where nothing is asked
    nothing = torch.tensor(torch.nan), torch.tensor(torch.nan), torch.zeros(0)
    recorded = RecordedObjective(model, lambda X, y: network_objective(model, X, y), lambda *_: lambda *_: nothing)
    assert recorded(X, y).loss.item() == network_objective(model, X, y).loss.item()


def test_what_values_decide_is_noticed_at_once() -> None:
    model = actgp.deep_gp(8, 1, 2, 64, num_points=0, generator=generator(0))
    X, y = torch.randn(16, 8, generator=generator(1)), torch.randn(16, 1, generator=generator(2))
    recorded = RecordedObjective(model, lambda X, y: network_objective(model, X, y), replayed)
    weights = model.gp_layers[0].features.weights
    near = torch.nn.functional.normalize(weights.detach()[:1], dim=1) + 0.003 * weights.detach()
    far, before = weights.detach().clone(), []
    for turn, values in enumerate((far, far, near, near, far)):  # units that are nearly equal need another precision
        with torch.no_grad():
            weights.copy_(values)
        before.append(recorded(X, y).known is not None)
        both = [evaluated(model, each, X, y) for each in (recorded, recorded.objective)]
        assert all(torch.equal(*pair) for pair in zip(*both, strict=True)), turn
    assert before == [True, True, False, True, False]
    assert len(recorded.functions) == 2


class OwnFeatures(actgp.ActivatedFeatures):
    """May do anything."""


class OwnKernel(actgp.ArcCosine):
    """So may this."""


def test_what_may_draw_or_is_learnt_is_not_replayed() -> None:
    def single(features: actgp.ActivatedFeatures, likelihood: Likelihood) -> actgp.DeepGP:
        return actgp.DeepGP([actgp.GPLayer(actgp.ArcCosine(3), features)], likelihood)

    units, noise = actgp.ActivatedFeatures(3, 4), GaussianLikelihood()
    assert replayable(single(units, noise))
    assert replayable(actgp.deep_gp(3))
    assert not replayable(single(units, StudentTLikelihood()))
    assert not replayable(actgp.deep_gp(3, 3, likelihood=SoftmaxLikelihood(num_classes=3, mixing_weights=False)))
    assert not replayable(single(OwnFeatures(3, 4), noise))
    assert not replayable(single(actgp.ActivatedFeatures(3, 4, actgp.Softplus(1.0, learnable=True)), noise))
    assert not replayable(actgp.DeepGP([actgp.GPLayer(actgp.ArcCosine(3), units)], noise, nn.Linear(3, 3)))
    assert not replayable(actgp.DeepGP([actgp.GPLayer(OwnKernel(3), units)], noise))
    frozen = actgp.Softplus(1.0, learnable=True).requires_grad_(False)
    assert not replayable(single(actgp.ActivatedFeatures(3, 4, frozen), noise))


def test_fit_records_long_stages_and_ends_where_it_would_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(300, torch.float64)
    recipe, results, made = Recipe(network_steps=12, num_steps=12, batch_size=32), [], []
    monkeypatch.setattr(stages, "replayed", lambda *given: made.append(given) or replayed(*given))
    for after in (1_000, 3):
        assert not made
        monkeypatch.setattr(stages, "RECORD_AFTER", after)
        model = model_of(torch.float64)
        result = actgp.fit(model, X, y[:, 0], recipe, generator=generator(2), progress=False)
        results.append((*result.network_objectives, *result.objectives, *result.final_objectives))
    assert results[0] == results[1]
    assert made


def test_blocks_panels_several_outputs_and_a_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whitened, "WORTHWHILE", 0)
    whitened.panels_of.cache_clear()
    g = generator(0)
    kernel = actgp.ArcCosine(2)  # of both layers
    features = [actgp.ActivatedFeatures(2, 70, generator=g) for _ in range(2)]
    layers = [actgp.GPLayer(kernel, own, 2, "identity", horizon=3.0) for own in features]
    model, X = actgp.DeepGP(layers, GaussianLikelihood()), torch.randn(16, 2, generator=g)
    with torch.no_grad():
        for layer in layers:
            layer.q.mean.normal_(generator=g)
    assert len(layers[0].constants().scales) == 2
    assert layers[0].constants().whitening.R.dtype == torch.float64  # in a model of float32
    objective = along(model, "elbo")
    recorded = RecordedObjective(model, objective, replayed)
    for seed in range(2):
        inputs = (X + seed, torch.sin(X), *model.noises(X, 2, generator=generator(seed)))
        both = [evaluated(model, each, *inputs) for each in (recorded, objective)]
        assert all(torch.equal(*pair) for pair in zip(*both, strict=True))
    assert len(recorded.functions) == 1
    whitened.panels_of.cache_clear()


def test_inputs_that_share_memory_are_not_recorded() -> None:
    model, X = model_of(torch.float64), torch.randn(16, 4, dtype=torch.float64, generator=generator(1))
    recorded = RecordedObjective(model, lambda X, y: network_objective(model, X, y), replayed)
    assert recorded(X[:, :3], X[:, 3:]).known is None
    assert recorded(X[:, :3].clone(), X[:, 3:].clone()).known is not None


def test_points_that_are_given_means_are_noticed() -> None:
    model, (X, y) = model_of(torch.float64), rows(16, torch.float64)
    means = model.gp_layers[0].q.mean
    recorded = RecordedObjective(model, lambda X, y: network_objective(model, X, y), replayed)
    for value in (0.0, 0.0, 0.5, 0.5):
        with torch.no_grad():
            means[4:] = value
        both = [evaluated(model, each, X, y) for each in (recorded, recorded.objective)]
        assert all(torch.equal(*pair) for pair in zip(*both, strict=True))
    assert len(recorded.functions) == 2


def test_what_cannot_be_recorded_says_so() -> None:
    model, (X, y) = model_of(torch.float64), rows(16, torch.float64)

    def branching(X: Tensor, y: Tensor) -> Evaluation:
        evaluation = network_objective(model, X, y)
        return evaluation if evaluation.loss.item() > 0 else Evaluation(-evaluation.loss, evaluation.objective)

    with pytest.raises(RuntimeError, match="expected a model whose steps can be recorded, got .*leave compile out"):
        RecordedObjective(model, branching, replayed)(X, y)
