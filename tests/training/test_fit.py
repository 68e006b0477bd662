"""Training in two stages: what it learns, what it leaves alone, and what it refuses."""

import json
import sys
from dataclasses import asdict
from itertools import count

import numpy as np
import pytest
import torch
from gpytorch.constraints import Interval
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from torch.utils.data import DataLoader, TensorDataset

import actgp
from actgp import Recipe
from actgp.training import stages
from actgp.training.objectives import Evaluation

SHORT = Recipe(network_steps=4, num_steps=3, batch_size=16)


def data(dtype: torch.dtype, N: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(N, 2, dtype=dtype, generator=g)
    return X, torch.sin(2 * X[:, 0]) + 0.1 * torch.randn(N, dtype=dtype, generator=g)


def deep(dtype: torch.dtype = torch.float64, num_layers: int = 2, num_inducing: int = 15) -> actgp.DeepGP:
    g = torch.Generator().manual_seed(0)
    layers = actgp.Layers(kernel="matched", prior_mean="identity", num_points=0)
    return actgp.deep_gp(2, 1, num_layers, num_inducing, layers=layers, generator=g).to(dtype)


def train(model: actgp.DeepGP, recipe: Recipe = SHORT, seed: int = 0, **options: object) -> actgp.FitResult:
    X, y = data(next(model.parameters()).dtype)
    g = torch.Generator().manual_seed(seed)
    return actgp.fit(model, X, y, recipe, generator=g, progress=False, **options)  # type: ignore[arg-type]


def test_the_deep_model_learns(dtype: torch.dtype) -> None:
    X, y = data(dtype, N=200)
    X_test, y_test = data(dtype, N=500)
    model = deep(dtype, num_inducing=30)
    untrained = model.predict(X_test).log_prob(y_test).mean()
    result = actgp.fit(
        model, X, y, Recipe(network_steps=300, num_steps=100), generator=torch.Generator().manual_seed(0)
    )
    prediction = model.predict(X_test)
    assert (prediction.mean - y_test).square().mean().sqrt() < 0.3 * y_test.std()
    assert prediction.log_prob(y_test).mean() > untrained + 1
    assert sum(result.objectives[-20:]) > sum(result.objectives[:20])
    assert sum(result.network_objectives[-20:]) > sum(result.network_objectives[:20]) + 10
    assert not model.training


def test_the_network_of_stage_one_is_returned() -> None:
    model = deep()
    X, y = data(torch.float64)
    seen = {}

    def watch(step: actgp.Step) -> None:
        if step.stage == "network":
            seen["mean"] = model.mean(X).detach()

    result = train(model, Recipe(network_steps=4, num_steps=3, validation=0.0), callback=watch)
    assert result.network is not None
    torch.testing.assert_close(result.network(X), seen["mean"])
    assert not torch.allclose(model.mean(X), seen["mean"])
    error = (seen["mean"] - y).square().mean()
    full = train(deep(), Recipe(network_steps=4, num_steps=0, batch_size=len(X)))
    assert full.network is not None
    assert error > 0
    assert full.objectives == ()


def test_stages_can_be_left_out() -> None:
    model = deep()
    S = [layer.q.raw_scale_tril.clone() for layer in model.gp_layers]
    train(model, Recipe(network_steps=3, num_steps=0))
    assert all(torch.equal(layer.q.raw_scale_tril, s) for layer, s in zip(model.gp_layers, S, strict=True))
    model = deep()
    result = train(model, Recipe(network_steps=0, num_steps=3))
    assert result.network is None
    assert len(result.objectives) == 3
    assert not any(torch.equal(layer.q.raw_scale_tril, s) for layer, s in zip(model.gp_layers, S, strict=True))


def test_steps_are_counted_and_seeded(dtype: torch.dtype) -> None:
    def outcome(seed: int) -> tuple[torch.Tensor, actgp.FitResult]:
        model = deep(dtype)
        result = train(model, seed=seed)
        return torch.nn.utils.parameters_to_vector(model.parameters()), result

    (first, result), (again, _), (other, _) = outcome(0), outcome(0), outcome(1)
    assert (len(result.network_objectives), len(result.objectives)) == (4, 3)
    assert result.stopped == "steps"
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_global_generator_is_the_default_source() -> None:
    outcomes = []
    for _ in range(2):
        torch.manual_seed(3)
        model = deep()
        actgp.fit(model, *data(torch.float64), SHORT, progress=False)
        outcomes.append(torch.nn.utils.parameters_to_vector(model.parameters()))
    assert torch.equal(*outcomes)


def test_one_layer_gets_the_bound_and_several_the_predictive_objective() -> None:
    one, two = Recipe.suited_to(deep(num_layers=1)), Recipe.suited_to(deep())
    assert (one.objective, one.weight(judged=True)) == ("elbo", 1.0)
    assert (two.objective, two.weight(judged=True)) == ("predictive", 0.3)
    assert two.weight(judged=False) == 1.0  # nobody would say when to stop
    assert Recipe(kl_weight=0.2).weight(judged=False) == 0.2


def test_a_loader_serves_as_well_as_tensors() -> None:
    X, y = data(torch.float64)
    model = deep()
    loader = DataLoader(TensorDataset(X, y), batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(0))
    result = actgp.fit(model, loader, recipe=Recipe(network_steps=150, num_steps=10), progress=False)
    assert (model.predict(X).mean - y).square().mean() < 0.3 * y.var()
    assert len(result.objectives) == 10


def test_a_callback_sees_each_step_and_may_end_a_stage() -> None:
    seen = []

    def stop_early(step: actgp.Step) -> bool:
        seen.append((step.stage, step.step))
        return step.stage == "posterior" and step.step == 2

    result = train(deep(), callback=stop_early)
    assert seen == [*(("network", i) for i in (1, 2, 3, 4)), ("posterior", 1), ("posterior", 2)]
    assert result.stopped == "callback"


def test_a_plateau_ends_a_stage() -> None:
    model = deep()
    result = train(
        model, Recipe(network_steps=5, num_steps=10_000, patience=3, learning_rate=1e-12, natural_rate=1e-12)
    )
    assert result.stopped == "converged"
    assert len(result.objectives) < 200


def test_a_stage_ends_with_what_predicted_held_out_rows_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actgp.training.data.FEWEST_TO_SPLIT", 10)
    X = torch.randn(80, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.randn(80, dtype=torch.float64, generator=torch.Generator().manual_seed(1))  # nothing to learn
    outcomes = {}
    for validation in (0.0, 0.25):
        model, g = deep(num_inducing=40), torch.Generator().manual_seed(0)
        recipe = Recipe(network_steps=400, num_steps=0, validation=validation, patience=100)
        result = actgp.fit(model, X, y, recipe, generator=g, progress=False)
        outcomes[validation] = (model.mean(X).detach() - y).square().mean().item(), len(result.network_objectives)
    assert outcomes[0.0][0] < 0.5  # learnt by heart, in part
    assert outcomes[0.25][0] > outcomes[0.0][0] + 0.2
    assert outcomes[0.25][1] < outcomes[0.0][1] == 400


def test_only_stage_1_ends_early_where_held_out_rows_see_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actgp.training.data.FEWEST_TO_SPLIT", 10)
    for score in ("network_score", "posterior_score"):  # ever worse
        falling = count(start=0, step=-1)
        monkeypatch.setattr(f"actgp.training.stages.{score}", lambda *_, falling=falling: float(next(falling)))
    X = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    recipe = Recipe(network_steps=300, num_steps=75, patience=20)
    result = actgp.fit(deep(), X, X[:, 0], recipe, progress=False)
    assert len(result.network_objectives) == 50  # the first judgement after two patiences
    assert len(result.objectives) == 75


def test_what_is_frozen_stays() -> None:
    model = deep()
    first, last = model.gp_layers
    first.features.weights.requires_grad_(False)
    last.q.raw_scale_tril.requires_grad_(False)
    model.likelihood.requires_grad_(False)
    last.kernel.raw_variance.requires_grad_(False)
    frozen = (
        first.features.weights,
        model.likelihood.raw_noise,
        last.kernel.raw_variance,
        last.q.raw_scale_tril,
    )
    before = [parameter.clone() for parameter in frozen]
    train(model)
    assert all(torch.equal(a, b) for a, b in zip(frozen, before, strict=True))
    assert last.q.mean.any()


def test_points_and_a_posterior_that_are_frozen_stay() -> None:
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(2, 1, 2, 10, generator=g).double()
    first, last = model.gp_layers
    first.features.points.locations.requires_grad_(False)
    last.q.requires_grad_(False)
    frozen = (first.features.points.locations, *last.q.parameters())
    before = [parameter.clone() for parameter in frozen]
    train(model)
    assert all(torch.equal(a, b) for a, b in zip(frozen, before, strict=True))


def test_points_that_have_no_means_are_placed_once() -> None:
    model = actgp.deep_gp(2, 1, 2, 10, generator=torch.Generator().manual_seed(0)).double()
    for layer in model.gp_layers:
        layer.features.mean_from, layer.q.num_means = "activations", layer.features.blocks[0]
    locations = model.gp_layers[0].features.points.locations
    begun = locations.clone()
    train(model)
    placed = locations.clone()
    train(model, Recipe(network_steps=0, num_steps=1, learning_rate=1e-12, batch_size=16), seed=1)
    assert not torch.allclose(placed, begun, atol=1e-3)
    torch.testing.assert_close(locations, placed)


def test_a_variance_with_bounds_stays_within_them() -> None:
    kernel = ScaleKernel(RBFKernel(), outputscale_constraint=Interval(0.5, 1.5))
    X, y = data(torch.float64)
    model = actgp.SVGP(kernel, actgp.InducingPoints(X[:8]), GaussianLikelihood()).double()
    actgp.fit(model, X, 5 * y, SHORT, progress=False)
    assert 0.5 < kernel.outputscale.item() < 1.5


def test_a_model_of_which_only_the_covariances_are_free() -> None:
    model = deep().requires_grad_(False)
    scales = [layer.q.raw_scale_tril.requires_grad_() for layer in model.gp_layers]
    with pytest.raises(ValueError, match="stage 1 needs parameters beside S and Gaussian noise, got none"):
        train(model)
    assert not any(scale.any() for scale in scales)
    train(model, Recipe(network_steps=0, num_steps=3, batch_size=16))
    assert all(scale.any() for scale in scales)


def test_a_model_of_which_only_the_noise_is_free() -> None:
    model = deep().requires_grad_(False)
    model.likelihood.requires_grad_()
    before = model.likelihood.noise.item()
    with pytest.raises(ValueError, match="stage 1 needs parameters beside S and Gaussian noise, got none"):
        train(model)
    assert model.likelihood.noise.item() == before
    train(model, Recipe(network_steps=0, num_steps=3, batch_size=16))
    assert model.likelihood.noise.item() != before


def test_why_the_last_stage_there_was_has_ended() -> None:
    result = train(deep(), Recipe(network_steps=5, num_steps=0), callback=lambda step: step.step == 2)
    assert result.stopped == "callback"


def test_an_interrupt_of_a_judgement_leaves_the_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actgp.training.data.FEWEST_TO_SPLIT", 10)
    monkeypatch.setattr(sys.modules["actgp.training.stage"], "VALIDATE_EVERY", 3)
    model, seen = deep(), []
    judge = stages.posterior_score

    def interrupted(*arguments: object) -> float:
        if len(seen) == 3:
            raise KeyboardInterrupt
        return judge(*arguments)  # type: ignore[arg-type]

    def watch(step: actgp.Step) -> None:
        if step.stage == "posterior":
            seen.append(model.gp_layers[0].q.mean.detach().clone())

    monkeypatch.setattr(stages, "posterior_score", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(model, Recipe(network_steps=4, num_steps=9, batch_size=16), callback=watch)
    assert torch.equal(model.gp_layers[0].q.mean, seen[-1])


def test_a_recipe_keeps_plain_numbers() -> None:
    recipe = Recipe(num_steps=np.int64(5), network_rate="0.02", kl_weight=np.float32(0.5))  # type: ignore[arg-type]
    assert recipe == Recipe(num_steps=5, network_rate=0.02, kl_weight=0.5)
    assert json.loads(json.dumps(asdict(recipe))) == asdict(recipe)


def test_fitting_works_where_gradients_are_switched_off() -> None:
    model = deep()
    with torch.no_grad():
        train(model)
    assert all(layer.q.mean.abs().max() > 0 for layer in model.gp_layers)


def test_an_interrupt_leaves_a_model_that_predicts() -> None:
    model = deep()

    def interrupt(step: actgp.Step) -> None:
        if step.stage == "posterior":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(model, callback=interrupt)
    assert not model.training
    assert torch.isfinite(model.predict(data(torch.float64)[0]).mean).all()


def test_steps_that_are_not_finite_are_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    healthy, calls = stages.posterior_objective, []

    def sometimes_nan(*args: object) -> Evaluation:
        calls.append(1)
        loss, objective = healthy(*args)  # type: ignore[arg-type]
        return Evaluation(loss * torch.nan if len(calls) in (2, 4) else loss, objective)

    monkeypatch.setattr(stages, "posterior_objective", sometimes_nan)
    model = deep()
    result = train(model, Recipe(network_steps=3, num_steps=6))
    assert result.skipped == 2
    assert len(result.objectives) == 6
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_an_objective_that_never_is_finite_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = stages.network_objective
    never = lambda *args, **options: Evaluation(*(v * torch.nan for v in healthy(*args, **options)))  # noqa: E731
    monkeypatch.setattr(stages, "network_objective", never)
    model = deep()
    with pytest.raises(
        ArithmeticError, match="expected a finite objective, got 21 steps in a row without one; standardise X and y"
    ):
        train(model, Recipe(network_steps=100))
    assert all(torch.isfinite(p).all() for p in model.parameters())


@pytest.mark.parametrize("rows", [1, 2])
def test_very_few_rows_are_enough(rows: int, dtype: torch.dtype) -> None:
    X, y = data(dtype)
    model = deep(dtype)
    actgp.fit(model, X[:rows], y[:rows], SHORT, progress=False)
    assert torch.isfinite(model.predict(X).variance).all()


def test_constant_columns_and_targets_do_no_harm(dtype: torch.dtype) -> None:
    X, y = data(dtype)
    X = X.clone()
    X[:, 1] = 0.0
    for target in (y, torch.zeros_like(y)):
        model = deep(dtype)
        actgp.fit(model, X, target, SHORT, progress=False)
        assert torch.isfinite(model.predict(X).variance).all()


def test_wrong_calls_are_refused_before_anything_changes() -> None:
    X, y = data(torch.float32)
    gpr = actgp.GPR(X, y, actgp.ArcCosine(2))
    model = deep(torch.float32)
    before = torch.nn.utils.parameters_to_vector(model.parameters())
    with pytest.raises(ValueError, match="GPR was given its data when it was built, got X or y again; leave them out"):
        actgp.fit(gpr, X, y)
    for missing in ((), (X,)):
        with pytest.raises(
            ValueError, match=r"DeepGP is trained on minibatches of X and y, got none; call fit\(model, X, y\)"
        ):
            actgp.fit(model, *missing)
    with pytest.raises(TypeError, match="model must be a GPR, SGPR, SVGP or DeepGP, got Linear; build one of those"):
        actgp.fit(torch.nn.Linear(2, 1), X, y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a DataLoader gives X and y, got y again; leave it out"):
        actgp.fit(model, DataLoader(TensorDataset(X, y)), y)
    for bad, match in (
        (X * torch.nan, "X must be finite"),
        (X[:, :1], "X must have 2 columns, got 1"),
        (X[:0], "one row"),
    ):
        with pytest.raises(ValueError, match=match):
            actgp.fit(model, bad, y[: len(bad)])
    with pytest.raises(TypeError, match="X must have the precision of the model, float32, got float64"):
        actgp.fit(model, X.double(), y)
    with pytest.raises(ValueError, match="y must be finite"):
        actgp.fit(model, X, y * torch.nan)
    frozen = actgp.SVGP(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 5), GaussianLikelihood()).requires_grad_(False)
    with pytest.raises(
        ValueError, match="a model must have parameters to fit, got none that requires a gradient; free"
    ):
        actgp.fit(frozen, X, y)
    assert torch.equal(before, torch.nn.utils.parameters_to_vector(model.parameters()))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"network_steps": -1}, "network_steps must be at least 0, got -1"),
        ({"num_steps": -1}, "num_steps must be at least 0, got -1"),
        ({"num_samples": 0}, "num_samples must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"patience": 0}, "patience must be at least 1, got 0"),
        ({"objective": "map"}, "objective must be one of .*, got 'map'"),
        ({"validation": 0.5}, "validation must be at least 0 and less than 0.5, got 0.5; pass e.g. 0.1"),
        ({"kl_weight": 0.0}, "kl_weight must be positive and finite, got 0.0"),
        ({"network_rate": float("nan")}, "network_rate must be positive and finite, got nan"),
        ({"learning_rate": -1.0}, "learning_rate must be positive and finite, got -1.0"),
        ({"natural_rate": 2.0}, "natural_rate must be at most 1, got 2.0; pass e.g. 0.1"),
    ],
)
def test_bad_recipes_are_refused(options: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Recipe(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("search", ["warm_start.posterior_objective", "calibrate.posterior_score"])
def test_an_interrupt_of_a_search_leaves_the_model_as_it_was(search: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls, before = deep(), count(), {}
    module, name = search.split(".")
    target = sys.modules[f"actgp.training.{module}"]
    evaluate = getattr(target, name)

    def interrupted(*arguments: object) -> object:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return evaluate(*arguments)

    def watch(step: actgp.Step) -> None:
        before.update({key: values.clone() for key, values in model.state_dict().items()})

    monkeypatch.setattr(target, name, interrupted)
    X, y = data(torch.float64)
    one = Recipe(network_steps=1, num_steps=1)
    with pytest.raises(KeyboardInterrupt):
        train(model, one, held_out=(X, y), callback=watch)
    assert not model.training
    for key, values in model.state_dict().items():
        torch.testing.assert_close(values, before[key], msg=key)
