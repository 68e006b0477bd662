from collections.abc import Callable

import pytest
import torch

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
        result = actgp.fit(model, recipe=actgp.Recipe(num_steps=1000))
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
    assert healthy(model).item() in values[:-1]
    assert healthy(model).item() > values[0]
    assert not model.training


def test_noise_is_found() -> None:
    X, y = data(torch.float64, N=150)
    model = actgp.GPR(X, y, actgp.ArcCosine(2))
    actgp.fit(model)
    assert model.likelihood.noise.item() == pytest.approx(0.01, rel=0.4)


def test_parameters_without_gradient_stay() -> None:
    X, y = data(torch.float64)
    model = actgp.SGPR(X, y, actgp.ArcCosine(2), features())
    model.features.weights.requires_grad_(False)
    before = model.features.weights.clone()
    actgp.fit(model, recipe=actgp.Recipe(num_steps=3))
    assert torch.equal(model.features.weights, before)


def test_a_start_that_is_not_finite_is_refused() -> None:
    X, y = data(torch.float64)
    model = actgp.GPR(X, y, actgp.ArcCosine(2))
    model.kernel.variance = float("inf")
    with pytest.raises(ValueError, match="must be finite at the start, got one that is not; standardise"):
        actgp.fit(model)
