"""Compiled steps are the steps that they were made of."""

import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood, Likelihood, SoftmaxLikelihood

import actgp
from actgp import Recipe
from actgp.features import InducingFeatures
from actgp.tracing import exceeds, listening, traced, tracing
from actgp.training.compiled import compiled
from actgp.training.objectives import network_objective, objective_along
from actgp.training.recording import RecordedObjective


def rows(number: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    X = torch.randn(number, 3, generator=g, dtype=dtype)
    return X, torch.sin(2 * X[:, :1]) + 0.1 * torch.randn(number, 1, generator=g, dtype=dtype)


def model_of(num_points: int, likelihood: Likelihood | None = None) -> actgp.DeepGP:
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(3, 1, 2, 8, num_points=num_points, likelihood=likelihood, generator=g)
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.mean.normal_(generator=g).mul_(0.3)
    return model


@pytest.fixture
def only_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes long: what is recorded is run as it is."""
    monkeypatch.setattr(torch._inductor, "compile", lambda recorded, inputs, options: recorded)


@pytest.mark.usefixtures("only_recorded")
@pytest.mark.parametrize("num_points", [0, 4])
def test_loss_objective_and_gradients_are_the_same(num_points: int) -> None:
    model, (X, y) = model_of(num_points), rows(16)
    recipe = Recipe(num_samples=2)

    def along(X: torch.Tensor, y: torch.Tensor, *noises: torch.Tensor) -> actgp.training.objectives.Evaluation:
        return objective_along(model, X, y, noises, 100, recipe, 0.3)

    objective = RecordedObjective(model, along, compiled)
    for seed in range(2):  # the second time nothing is compiled
        noises = model.noises(X, 2, generator=torch.Generator().manual_seed(seed))
        found = []
        for evaluate in (along, objective):
            model.zero_grad()
            evaluation = evaluate(X, y, *noises)
            evaluation.backward()
            found.append(
                [evaluation.loss.detach(), evaluation.objective, *(p.grad.clone() for p in model.parameters())]
            )
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6 * max(1.0, theirs.abs().max().item()))
    assert len(objective.functions) == 1


@pytest.mark.usefixtures("only_recorded")
def test_what_is_freed_or_laid_out_otherwise_is_noticed_at_the_next_step() -> None:
    model, (X, y) = model_of(0), rows(16)
    weights = model.gp_layers[0].features.weights.requires_grad_(False)
    objective = RecordedObjective(model, lambda X, y: network_objective(model, X, y), compiled)
    objective(X, y).backward()
    assert weights.grad is None
    weights.requires_grad_()
    found = []
    for inputs in (X, X.T.contiguous().T):  # the same numbers, column by column
        model.zero_grad()
        objective(inputs, y).backward()
        found.append(weights.grad.clone())
    assert found[0].any()
    torch.testing.assert_close(*found)
    assert len(objective.functions) == 3


@pytest.mark.usefixtures("only_recorded")
def test_a_network_whose_points_have_no_means_leaves_them_alone() -> None:
    model, (X, y) = model_of(4), rows(16)
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.mean[layer.q.blocks[0] :] = 0
    objective = RecordedObjective(model, lambda X, y: network_objective(model, X, y), compiled)
    evaluation = objective(X, y)
    evaluation.backward()
    assert evaluation.loss.item() == pytest.approx(network_objective(model, X, y).loss.item(), rel=1e-4)
    assert not any(layer.q.mean.grad[layer.q.blocks[0] :].any() for layer in model.gp_layers)
    assert all(layer.q.mean.grad[: layer.q.blocks[0]].any() for layer in model.gp_layers)


@pytest.mark.usefixtures("only_recorded")
def test_training_goes_as_without() -> None:
    X, y = rows(300)
    recipes = [Recipe(network_steps=5, num_steps=5, batch_size=32, compile=compile) for compile in (False, True)]
    results = [
        actgp.fit(model_of(4), X, y[:, 0], recipe, generator=torch.Generator().manual_seed(2), progress=False)
        for recipe in recipes
    ]
    for name in ("network_objectives", "objectives"):
        ours, theirs = (torch.tensor(getattr(result, name)) for result in results)
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)


def test_what_the_compiler_makes_of_it() -> None:
    g = torch.Generator().manual_seed(0)
    model, (X, y) = actgp.deep_gp(3, 1, 1, 4, num_points=0, generator=g), rows(8)
    with torch.no_grad():
        model.gp_layers[0].q.mean.normal_(generator=g)
    expected = network_objective(model, X, y)
    found = RecordedObjective(model, lambda X, y: network_objective(model, X, y), compiled)(X, y)
    assert found.loss.item() == pytest.approx(expected.loss.item(), rel=1e-4)
    (wanted,) = torch.autograd.grad(expected.loss, model.gp_layers[0].q.mean)
    found.backward()
    torch.testing.assert_close(model.gp_layers[0].q.mean.grad, wanted, rtol=1e-3, atol=1e-4)


def test_a_decomposition_that_fails_is_left_to_the_eager_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (X, y) = model_of(0), rows(16)
    objective = RecordedObjective(model, lambda X, y: network_objective(model, X, y), compiled)
    nothing = torch.tensor(torch.nan)
    failing = nothing, nothing, torch.zeros(1), *(torch.zeros_like(p) for p in model.parameters())
    monkeypatch.setattr(objective, "make", lambda *_: lambda *_: failing)
    assert objective(X, y).loss.item() == network_objective(model, X, y).loss.item()


def test_what_draws_is_refused_before_anything_changes() -> None:
    X, y = rows(50)
    model = actgp.deep_gp(3, 3, 2, 8, likelihood=SoftmaxLikelihood(num_classes=3, mixing_weights=False))
    before = {name: values.clone() for name, values in model.state_dict().items()}
    with pytest.raises(ValueError, match="compile=True needs a GaussianLikelihood, got SoftmaxLikelihood"):
        actgp.fit(model, X, y[:, 0].sign().long() + 1, Recipe(compile=True), progress=False)
    assert all(torch.equal(values, before[name]) for name, values in model.state_dict().items())
    with pytest.raises(TypeError, match="compile must be True or False, got 'yes'"):
        Recipe(compile="yes")
    backbone = torch.nn.Linear(3, 3)
    behind = actgp.DeepGP(model_of(0).gp_layers, GaussianLikelihood(), backbone)
    with pytest.raises(ValueError, match="compile=True is for layers alone, got a backbone"):
        actgp.fit(behind, X, y[:, 0], Recipe(compile=True), progress=False)
    frozen = actgp.DeepGP(model.gp_layers, model.likelihood, backbone.requires_grad_(False)).train()
    with pytest.raises(ValueError, match="compile=True needs a GaussianLikelihood"):
        actgp.fit(frozen, X, y[:, 0].sign().long() + 1, Recipe(compile=True), progress=False)
    assert frozen.training


@pytest.mark.parametrize(
    ("kernel", "features"),
    [
        (actgp.ArcCosine(3), actgp.ActivatedFeatures(3, 4, actgp.Softplus(1.0, learnable=True))),
        (actgp.ZonalMatern(3), actgp.InducingPoints(torch.randn(4, 3))),
    ],
)
def test_what_is_learnt_along_is_refused(kernel: actgp.kernels.ZonalKernel, features: InducingFeatures) -> None:
    X, y = rows(50)
    model = actgp.SVGP(kernel, features, GaussianLikelihood())
    with pytest.raises(ValueError, match="compile=True needs activations and kernels whose energies are fixed, got"):
        actgp.fit(model, X, y[:, 0], Recipe(network_steps=1, num_steps=1, compile=True), progress=False)


def test_tracing_ends_with_its_context() -> None:
    assert tracing() is None
    with traced((True,)) as trace:
        assert tracing() is trace
        assert exceeds(torch.tensor(1.0), 2.0)  # as it was answered before
        assert trace.asked == [torch.tensor(0.5)]
    assert tracing() is None
    with listening() as answers:
        assert not exceeds(torch.tensor(1.0), 2.0)
        assert exceeds(torch.tensor(torch.nan), 2.0)
    assert answers == [False, True]
    exceeds(torch.tensor(1.0), 2.0)
    assert len(answers) == 2
