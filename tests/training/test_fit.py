from collections.abc import Callable

import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood

import actgp


def data(dtype: torch.dtype, N: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(N, 2, dtype=dtype, generator=g)
    return X, torch.sin(2 * X[:, 0]) + 0.1 * torch.randn(N, dtype=dtype, generator=g)


def features(M: int = 15) -> actgp.ActivatedFeatures:
    return actgp.ActivatedFeatures(2, M, generator=torch.Generator().manual_seed(0))


def gradient(model: torch.nn.Module, objective: Callable[[], torch.Tensor]) -> float:
    """The largest entry of the objective's gradient."""
    model.zero_grad()
    objective().backward()
    return max(p.grad.abs().max().item() for p in model.parameters() if p.grad is not None)


def test_exact_objectives_rise_to_a_stationary_point(dtype: torch.dtype) -> None:
    X, y = data(dtype)
    for model, objective in (
        (gpr := actgp.GPR(X, y, actgp.ArcCosine(2)), gpr.log_evidence),
        (sgpr := actgp.SGPR(X, y, actgp.ArcCosine(2), features(4)), sgpr.elbo),
    ):
        before, steepness = objective().item(), gradient(model, objective)
        result = actgp.fit(model, num_steps=1000)
        assert result.stopped == "converged"
        assert list(result.objectives) == sorted(result.objectives)
        assert objective().item() == pytest.approx(result.objectives[-1], rel=1e-9)
        assert objective().item() > before + 10
        assert gradient(model, objective) < 0.02 * steepness


def test_the_line_search_steps_back_from_what_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(torch.float64)
    model = actgp.SGPR(X, y, actgp.ArcCosine(2), features(4))
    start = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    healthy, failures = actgp.SGPR.elbo, []

    def fails_far_away(self: actgp.SGPR) -> torch.Tensor:
        if (torch.nn.utils.parameters_to_vector(self.parameters()) - start).norm() > 0.3:
            failures.append(1)
            raise ValueError("too far")
        return healthy(self)

    monkeypatch.setattr(actgp.SGPR, "elbo", fails_far_away)
    before = model.elbo().item()
    result = actgp.fit(model)
    assert failures
    assert model.elbo().item() > before + 1
    assert result.objectives[-1] == pytest.approx(model.elbo().item())


def test_an_interrupt_leaves_the_last_accepted_step(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(torch.float64)
    model = actgp.SGPR(X, y, actgp.ArcCosine(2), features())
    healthy, values = actgp.SGPR.elbo, []

    def interrupted(self: actgp.SGPR) -> torch.Tensor:
        value = healthy(self)
        values.append(value.item())
        if len(values) == 8:
            raise KeyboardInterrupt
        return value

    monkeypatch.setattr(actgp.SGPR, "elbo", interrupted)
    with pytest.raises(KeyboardInterrupt):
        actgp.fit(model)
    assert healthy(model).item() in values
    assert healthy(model).item() > values[0]
    assert not model.training


def test_fitting_works_where_gradients_are_switched_off() -> None:
    X, y = data(torch.float64)
    model = actgp.SVGP(actgp.ArcCosine(2), features(), GaussianLikelihood()).double()
    with torch.no_grad():
        actgp.fit(model, X, y, num_steps=2)
    assert model.layer.q.mean.abs().max() > 0


def test_noise_is_found() -> None:
    X, y = data(torch.float64, N=150)
    model = actgp.GPR(X, y, actgp.ArcCosine(2))
    actgp.fit(model)
    assert model.likelihood.noise.item() == pytest.approx(0.01, rel=0.4)


def test_steps_are_counted_and_seeded(dtype: torch.dtype) -> None:
    X, y = data(dtype)

    def train(seed: int) -> tuple[torch.Tensor, actgp.FitResult]:
        model = actgp.SVGP(actgp.ArcCosine(2), features(), GaussianLikelihood()).to(dtype)
        g = torch.Generator().manual_seed(seed)
        result = actgp.fit(model, X, y, num_steps=7, batch_size=16, generator=g, progress=False)
        return model.predict(X).mean, result

    (first, result), (again, _), (other, _) = train(0), train(0), train(1)
    assert len(result.objectives) == 7
    assert result.stopped == "steps"
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_fitted_model_predicts_well(dtype: torch.dtype) -> None:
    X, y = data(dtype)
    model = actgp.SVGP(actgp.ArcCosine(2), features(30), GaussianLikelihood()).to(dtype)
    actgp.fit(model, X, y, num_steps=400, learning_rate=0.05, generator=torch.Generator().manual_seed(0))
    assert (model.predict(X).mean - y).square().mean().sqrt() < 0.3 * y.std()
    assert not model.training


def test_parameters_without_gradient_stay() -> None:
    X, y = data(torch.float64)
    model = actgp.SGPR(X, y, actgp.ArcCosine(2), features())
    model.features.weights.requires_grad_(False)
    before = model.features.weights.clone()
    actgp.fit(model, num_steps=3)
    assert torch.equal(model.features.weights, before)


def test_steps_that_are_not_finite_are_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(torch.float64)
    model = actgp.SVGP(actgp.ArcCosine(2), features(), GaussianLikelihood()).double()
    healthy, calls = actgp.SVGP.elbo, []

    def sometimes_nan(self: actgp.SVGP, *args: object, **kwargs: object) -> torch.Tensor:
        calls.append(1)
        value = healthy(self, *args, **kwargs)  # type: ignore[arg-type]
        return value * torch.nan if len(calls) in (2, 4) else value

    monkeypatch.setattr(actgp.SVGP, "elbo", sometimes_nan)
    result = actgp.fit(model, X, y, num_steps=6)
    assert result.skipped == 2
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_an_objective_that_never_is_finite_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(torch.float64)
    model = actgp.SVGP(actgp.ArcCosine(2), features(), GaussianLikelihood()).double()
    healthy = actgp.SVGP.elbo
    monkeypatch.setattr(actgp.SVGP, "elbo", lambda *args, **kwargs: healthy(*args, **kwargs) * torch.nan)
    with pytest.raises(
        ArithmeticError, match="expected a finite objective, got 21 steps in a row without one; standard"
    ):
        actgp.fit(model, X, y, num_steps=100)
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_a_start_that_is_not_finite_is_refused() -> None:
    X, y = data(torch.float64)
    model = actgp.GPR(X, y, actgp.ArcCosine(2))
    model.kernel.variance = float("inf")
    with pytest.raises(ValueError, match="must be finite at the start, got one that is not; standardise"):
        actgp.fit(model)


def test_wrong_calls_are_refused() -> None:
    X, y = data(torch.float32)
    gpr = actgp.GPR(X, y, actgp.ArcCosine(2))
    svgp = actgp.SVGP(actgp.ArcCosine(2), features(), GaussianLikelihood())
    with pytest.raises(ValueError, match="GPR was given its data when it was built, got X or y again; leave them out"):
        actgp.fit(gpr, X, y)
    with pytest.raises(
        ValueError, match=r"SVGP is trained on minibatches of X and y, got none; call fit\(model, X, y\)"
    ):
        actgp.fit(svgp)
    with pytest.raises(TypeError, match="model must be a GPR, SGPR or SVGP, got Linear; build one of those"):
        actgp.fit(torch.nn.Linear(2, 1), X, y)  # type: ignore[arg-type]
    frozen = actgp.SVGP(actgp.ArcCosine(2), features(), GaussianLikelihood()).requires_grad_(False)
    with pytest.raises(
        ValueError, match="a model must have parameters to fit, got none that requires a gradient; free"
    ):
        actgp.fit(frozen, X, y)
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        actgp.fit(svgp, X, y, num_steps=0)
    with pytest.raises(ValueError, match="learning_rate must be positive and finite, got -1.0"):
        actgp.fit(svgp, X, y, learning_rate=-1.0)
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        actgp.fit(svgp, X, y, batch_size=0)
