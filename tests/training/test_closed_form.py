"""A GP around a network that stays as it is, with Gaussian noise: fitted at once."""

from dataclasses import replace
from math import log
from pathlib import Path

import pytest
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood, Likelihood, PoissonLikelihood, SoftmaxLikelihood
from gpytorch.priors import LogNormalPrior
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import actgp
from actgp.training import closed_form
from actgp.training.data import Batch
from actgp.training.recipe import NetworkErrors, has_closed_form
from actgp.training.residual import EXPLAINED, LEVEL_SD, PARAMETERS, borne_out, fit_residual, rows_of

STEPS = actgp.Recipe(network_steps=0, num_steps=3, objective="elbo", num_samples=1)


def carried(
    likelihood: Likelihood | None = None, num_outputs: int = 1, dtype: torch.dtype = torch.float64, M: int = 12
) -> actgp.DeepGP:
    """A layer that is given [z, μ], z of two columns."""
    g = torch.Generator().manual_seed(1)
    points = actgp.InducingPoints(torch.randn(M, 2, generator=g))
    layer = actgp.GPLayer(actgp.ArcCosine(2), points, num_outputs, "carried")
    likelihood = GaussianLikelihood(noise_constraint=GreaterThan(1e-8)) if likelihood is None else likelihood
    return actgp.DeepGP([layer], likelihood).to(dtype)


def rows(N: int, seed: int = 0, P: int = 1, error: float = 0.3, dtype: torch.dtype = torch.float64) -> Batch:
    """[z, μ], and y = μ + something that z says + noise."""
    g = torch.Generator().manual_seed(seed)
    z, mu = torch.randn(N, 2, generator=g), torch.randn(N, P, generator=g)
    y = mu + error * (torch.sin(2 * z[:, :1]) + torch.randn(N, P, generator=g))
    return torch.cat([z, mu], dim=1).to(dtype), y.to(dtype)


def varying(share: float = 0.05) -> actgp.ContaminatedGaussianLikelihood:
    return actgp.ContaminatedGaussianLikelihood(share=share, input_dim=3)


def dense(model: actgp.DeepGP, given: Batch, at: Tensor, v: float, noise: float) -> tuple[Tensor, Tensor]:
    """Mean and variance of g by a GP whose covariance is A Aᵀ beside what A leaves unexplained."""
    (layer,) = model.gp_layers
    known, new = rows_of(layer, given), rows_of(layer, (at, torch.zeros_like(at[:, 2:])))
    K = v * known.A @ known.A.T + noise * torch.eye(len(known.A), dtype=torch.float64)
    cross = v * new.A @ known.A.T
    explained = (cross * torch.linalg.solve(K, cross.T).T).sum(1)
    return cross @ torch.linalg.solve(K, known.r), v * (new.A.square().sum(1) + new.rest) - explained


def without_leverages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Residuals of training rows as they are, and corrections as they are."""
    monkeypatch.setattr("actgp.training.residual.ridge_leverages", lambda z, y: torch.zeros_like(z[:, 0]))
    monkeypatch.setattr("actgp.training.residual.borne_out", lambda mean, r: 1.0)


def test_predictions_are_those_of_a_gp_that_is_given_both_kinds_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    without_leverages(monkeypatch)
    model, before = carried(), carried()
    train, held_out = rows(40), rows(20, 1)
    actgp.fit(model, *train, held_out=held_out, progress=False)
    c = 1 + PARAMETERS / 20
    v, noise = model.gp_layers[0].kernel.variance.item() / c, model.likelihood.noise.item() / c
    at, _ = rows(7, 2)
    both = tuple(torch.cat(values) for values in zip(train, held_out, strict=True))
    mean, variance = dense(before, both, at, v, noise)
    prediction = model.predict(at)
    torch.testing.assert_close(prediction.mean, at[:, 2] + mean[:, 0])
    torch.testing.assert_close(prediction.epistemic, c * variance)
    torch.testing.assert_close(prediction.aleatoric, torch.full_like(variance, c * noise))


@pytest.mark.parametrize("is_given", [True, False])
def test_noise_and_variance_are_the_best_for_rows_that_are_left_out(
    is_given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_leverages(monkeypatch)
    model, before = carried(), carried()
    train, held_out = rows(30), rows(15, 1)
    judged = held_out if is_given else train
    result = actgp.fit(model, *train, held_out=held_out if is_given else None, progress=False)
    c = 1 + PARAMETERS / len(judged[0])
    best = model.gp_layers[0].kernel.variance.log().item() - log(c), model.likelihood.noise.log().item() - log(c)
    r = judged[1] - judged[0][:, 2:]
    size = rows_of(before.gp_layers[0], judged)
    k = (size.A.square().sum(1) + size.rest).mean().log().item()

    def objective(log_v: float, log_noise: float, level: float) -> float:
        total = 0.0
        for i in range(len(r)):
            left = torch.arange(len(r)) != i
            given = [values[left] for values in judged]
            if is_given:
                given = [torch.cat(pair) for pair in zip(given, train, strict=True)]
            v, noise = torch.tensor([log_v, log_noise]).exp().tolist()
            mean, variance = dense(before, (given[0], given[1]), judged[0][i : i + 1], v, noise)
            total += torch.distributions.Normal(mean[0], (variance + noise).sqrt()).log_prob(r[i]).item()
        spread = (log_noise - level) ** 2 + (log_v - log(EXPLAINED) - level + k) ** 2
        return total - spread / (2 * LEVEL_SD**2)

    level = r.square().mean().log().item()  # of step 2, where noise is normal
    reached = objective(*best, level)
    assert result.stopped == "converged"
    assert result.objectives[-1] == pytest.approx(reached / len(r), rel=1e-6)
    for step in ((0.1, 0.0), (-0.1, 0.0), (0.0, 0.1), (0.0, -0.1)):
        assert objective(best[0] + step[0], best[1] + step[1], level) < reached


@pytest.mark.parametrize("make", [varying, GaussianLikelihood], ids=["varying", "plain"])
def test_both_precisions_and_all_sources_agree(make: type[Likelihood]) -> None:
    train, held_out = rows(80, P=1), rows(40, 1)
    reference = carried(make())
    actgp.fit(reference, *train, held_out=held_out, progress=False)
    expected = reference.predict(held_out[0])

    in_float32 = carried(make(), dtype=torch.float32)
    floats = [[values.float() for values in batch] for batch in (train, held_out)]
    actgp.fit(in_float32, *floats[0], held_out=tuple(floats[1]), progress=False)
    found = in_float32.predict(floats[1][0])
    torch.testing.assert_close(found.mean.double(), expected.mean, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found.variance.double(), expected.variance, rtol=1e-2, atol=1e-4)

    loaded = carried(make())
    loader = DataLoader(TensorDataset(*train), batch_size=7, shuffle=True)
    actgp.fit(loaded, loader, held_out=held_out, progress=False)
    torch.testing.assert_close(loaded.predict(held_out[0]).variance, expected.variance, rtol=1e-4, atol=1e-6)


def test_a_fit_does_not_depend_on_the_fit_before_it() -> None:
    model, train = carried(varying()), rows(80)
    actgp.fit(model, *train, progress=False)
    first = model.predict(train[0]).variance
    actgp.fit(model, *train, progress=False)
    torch.testing.assert_close(model.predict(train[0]).variance, first, rtol=1e-3, atol=0)


def test_units_do_not_matter() -> None:
    small, large = carried(varying()), carried(varying())
    (h, y), (new, y_new) = rows(80), rows(40, 1)
    scale = torch.tensor([1.0, 1.0, 100.0], dtype=torch.float64)
    actgp.fit(small, h, y, held_out=(new, y_new), progress=False)
    actgp.fit(large, h * scale, 100 * y, held_out=(new * scale, 100 * y_new), progress=False)
    variance = large.predict(new * scale).variance
    torch.testing.assert_close(1e4 * small.predict(new).variance, variance, rtol=1e-2, atol=0)


def test_several_outputs_share_noise_and_have_their_own_corrections() -> None:
    train, held_out = rows(200, P=2), rows(100, 1, P=2)
    model = carried(num_outputs=2)
    actgp.fit(model, *train, held_out=held_out, progress=False)
    prediction = model.predict(held_out[0])
    assert prediction.mean.shape == (100, 2)
    swapped = carried(num_outputs=2)
    (h, y), (new, y_new), columns = train, held_out, [0, 1, 3, 2]
    actgp.fit(swapped, h[:, columns], y.flip(1), held_out=(new[:, columns], y_new.flip(1)), progress=False)
    torch.testing.assert_close(swapped.predict(new[:, columns]).mean, prediction.mean.flip(1), rtol=1e-5, atol=1e-6)
    assert (prediction.mean - y_new).square().mean() < 0.85 * (new[:, 2:] - y_new).square().mean()


def test_noise_follows_the_input_and_outliers_are_wide() -> None:
    g = torch.Generator().manual_seed(0)
    h, _ = rows(1_000)
    sd = 0.2 * torch.exp(0.7 * h[:, :1])
    noise = sd * torch.randn(1_000, 1, dtype=torch.float64, generator=g)
    noise[::25] *= 6  # 4 % are outliers
    model = carried(varying())
    actgp.fit(model, h[:600], (h[:, 2:] + noise)[:600], held_out=(h[600:], (h[:, 2:] + noise)[600:]), progress=False)
    likelihood = model.likelihood
    assert likelihood.slopes[0].item() == pytest.approx(1.4, rel=0.3)  # of log σ²; the prior draws it to zero
    assert likelihood.slopes[1:].abs().max() < 0.25
    assert likelihood.noise.sqrt().item() == pytest.approx(0.2, rel=0.2)
    assert 5 < (likelihood.outlier_noise / likelihood.noise).item() < 60


def test_held_out_rows_say_how_large_errors_are() -> None:
    (h, y), (new, y_new) = rows(300), rows(300, 1)
    seen = h[:, 2:] + 0.2 * (y - h[:, 2:])  # the network fits what it was trained on
    model = carried(varying())
    result = actgp.fit(model, h, seen, held_out=(new, y_new), progress=False)
    at, y_at = rows(500, 2)
    lower, upper = model.predict(at).interval(0.9)
    assert 0.85 < ((lower < y_at[:, 0]) & (y_at[:, 0] < upper)).double().mean() < 0.95
    assert result.errors is not None
    assert result.errors.training == pytest.approx((seen - h[:, 2:]).square().mean().item())
    assert result.errors.new == pytest.approx((y_new - new[:, 2:]).square().mean().item())
    assert "on held-out rows, to which predictions were fitted; it overfits X, and earlier stopping" in str(
        result.errors
    )


def test_the_mean_is_corrected_as_far_as_held_out_rows_bear_it_out(generator: torch.Generator) -> None:
    f = torch.randn(400, 1, dtype=torch.float64, generator=generator)
    noise = torch.randn(400, 1, dtype=torch.float64, generator=generator)
    assert borne_out(f, f) == pytest.approx(1)
    assert borne_out(f, -f) == 0
    assert borne_out(f, noise) == 0
    assert borne_out(f[:1], f[:1]) == 0
    found = borne_out(f, 0.5 * f + noise)
    assert found == pytest.approx(0.5 - 2 / 400**0.5, abs=0.1)  # two standard errors below the best
    assert borne_out(10 * f, 10 * (0.5 * f + noise)) == pytest.approx(found)

    model, (h, _), (new, _), (at, _) = carried(varying()), rows(60), rows(30, 1), rows(100, 2)
    y, y_new = (values[:, 2:] + 0.3 * noise[: len(values)] for values in (h, new))  # there is nothing to correct
    actgp.fit(model, h, y, held_out=(new, y_new), progress=False)
    torch.testing.assert_close(model.predict(at).mean, at[:, 2])
    assert model.predict(at).epistemic.min() > 0


def test_without_held_out_rows_each_row_is_left_out() -> None:
    model, (at, y_at) = carried(varying()), rows(500, 2)
    result = actgp.fit(model, *rows(300), progress=False)
    lower, upper = model.predict(at).interval(0.9)
    assert 0.85 < ((lower < y_at[:, 0]) & (y_at[:, 0] < upper)).double().mean() < 0.95
    assert (model.predict(at).mean - y_at[:, 0]).square().mean() < 0.9 * (at[:, 2] - y_at[:, 0]).square().mean()
    assert result.errors is not None
    assert result.errors.source == "leave-one-out"
    assert result.errors.ratio > 1
    assert "when each row is left out of its last layer" in str(result.errors)


def wide(N: int, columns: int) -> tuple[actgp.DeepGP, Batch]:
    """A network whose last layer has as many features as there are rows, and fits them."""
    g = torch.Generator().manual_seed(0)
    z = torch.randn(N, columns, dtype=torch.float64, generator=g)
    y = z @ torch.randn(columns, 1, dtype=torch.float64, generator=g)
    layer = actgp.GPLayer(actgp.ArcCosine(columns), actgp.InducingPoints(z[:8]), 1, "carried")
    likelihood = actgp.ContaminatedGaussianLikelihood(input_dim=columns + 1)
    mu = y + 0.01 * torch.randn(N, 1, dtype=torch.float64, generator=g)
    return actgp.DeepGP([layer], likelihood).double(), (torch.cat([z, mu], dim=1), y)


@pytest.mark.parametrize(("N", "columns"), [(40, 38), (100, 60)])  # γ > .7 N; γ = .6 N, and errors grow sixfold
def test_where_leaving_out_says_nothing_the_mean_stays_and_rows_are_asked_for(N: int, columns: int) -> None:
    model, (h, y) = wide(N, columns)
    with pytest.warns(UserWarning, match=r"says little of other rows, .* pass held_out=\(X, y\), rows that it was not"):
        result = actgp.fit(model, h, y, progress=False)
    assert result.errors is not None
    assert result.errors.source == "none"
    q = model.gp_layers[0].q
    assert not q.mean.any()
    torch.testing.assert_close(q.scale_tril[0], torch.eye(8, dtype=torch.float64))
    assert not model.likelihood.slopes.any()
    assert torch.equal(model.mean(h), h[:, -1])


def test_with_held_out_rows_such_training_rows_are_left_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (h, y) = wide(60, 38)
    other, _ = wide(60, 38)
    held_out = h[40:], y[40:] + 1.0
    actgp.fit(model, h[:40], y[:40], held_out=held_out, progress=False)
    monkeypatch.setattr(
        closed_form, "fit_residual", lambda head, train, judged, report: fit_residual(head, judged, judged)
    )
    actgp.fit(other, h[:40], y[:40], held_out=held_out, progress=False)
    torch.testing.assert_close(model.predict(h).mean, other.predict(h).mean, rtol=1e-3, atol=1e-3)


def test_a_network_without_errors() -> None:
    h, _ = rows(50)
    model = carried(varying())
    actgp.fit(model, h, h[:, 2:], progress=False)
    prediction = model.predict(h)
    torch.testing.assert_close(prediction.mean, h[:, 2])
    assert prediction.variance.max() < 1e-5


def test_single_rows_will_do() -> None:
    for train, held_out in ((rows(20), rows(1, 1)), (rows(1), rows(20, 1))):
        model = carried(varying())
        actgp.fit(model, *train, held_out=held_out, progress=False)
        assert torch.isfinite(model.predict(train[0]).variance).all()


def test_priors_join() -> None:
    train, held_out = rows(60), rows(30, 1)
    likelihood = GaussianLikelihood(noise_prior=LogNormalPrior(log(0.5), 0.01))
    model = carried(likelihood)
    model.likelihood.noise = 0.4
    model.gp_layers[0].kernel.register_prior("variance_prior", LogNormalPrior(log(0.02), 0.01), "variance")
    actgp.fit(model, *train, held_out=held_out, progress=False)
    c = 1 + PARAMETERS / 30
    assert model.likelihood.noise.item() == pytest.approx(0.5 * c, rel=0.03)
    assert model.gp_layers[0].kernel.variance.item() == pytest.approx(0.02 * c, rel=0.03)


def test_what_is_frozen_stays() -> None:
    model, train = carried(varying()), rows(60)
    likelihood, layer = model.likelihood, model.gp_layers[0]
    likelihood.noise, likelihood.outlier_noise = 0.07, 3.0
    for p in (likelihood.raw_noise, likelihood.raw_outlier_noise, likelihood.slopes, layer.kernel.raw_variance):
        p.requires_grad_(False)
    result = actgp.fit(model, *train, progress=False)
    assert likelihood.noise.item() == pytest.approx(0.07)
    assert likelihood.outlier_noise.item() == pytest.approx(3.0)
    assert not likelihood.slopes.any()
    assert layer.kernel.variance.item() == 1.0
    assert result.stopped == "converged"
    assert layer.q.mean.any()


def test_kernels_of_gpytorch_will_do() -> None:
    points = actgp.InducingPoints(torch.randn(15, 2, generator=torch.Generator().manual_seed(0)))
    layer = actgp.GPLayer(ScaleKernel(RBFKernel(ard_num_dims=2)), points, 1, "carried")
    model = actgp.DeepGP([layer], GaussianLikelihood()).double()
    actgp.fit(model, *rows(200), held_out=rows(100, 1), progress=False)
    at, y_at = rows(300, 2)
    assert (model.predict(at).mean - y_at[:, 0]).square().mean() < 0.9 * (at[:, 2] - y_at[:, 0]).square().mean()


def test_rounding_bounds_the_noise() -> None:
    h, y = rows(300, error=1.0)
    model = carried(varying())
    actgp.fit(model, h, y.round(), progress=False)
    assert float(model.likelihood.noise_covar.raw_noise_constraint.lower_bound) == pytest.approx(1 / 12)
    assert model.likelihood.noise > 1 / 12


def test_an_interrupt_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    h, y = rows(300, error=1.0)
    model = carried(varying())
    before = {name: values.clone() for name, values in model.state_dict().items()}

    def broken_off(head: actgp.DeepGP, train: Batch, judged: Batch | None, report: object) -> None:
        def interrupt(_: float) -> None:
            raise KeyboardInterrupt

        fit_residual(head, train, judged, interrupt)

    monkeypatch.setattr(closed_form, "fit_residual", broken_off)
    with pytest.raises(KeyboardInterrupt):
        actgp.fit(model, h, y.round(), progress=False)
    assert all(torch.equal(values, before[name]) for name, values in model.state_dict().items())
    assert not model.training


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


def around(y: Tensor, X: Tensor, **options: object) -> actgp.DeepGP:
    g = torch.Generator().manual_seed(0)
    return actgp.convert(network(), X, y, num_inducing=10, generator=g, **options)[0]  # type: ignore[arg-type]


def noisy(N: int = 120) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(N, 2, generator=g)
    with torch.no_grad():
        return X, network()(X) + 0.1 * torch.randn(N, 1, generator=g)


def test_a_converted_network_is_fitted_in_closed_form_by_default() -> None:
    X, y = noisy()
    model = around(y, X)
    assert has_closed_form(model)
    suited = actgp.Recipe.suited_to(model)
    assert (suited.network_steps, suited.num_steps) == (0, 0)
    calls: list[int] = []
    model.backbone.register_forward_hook(lambda module, inputs, output: calls.append(len(inputs[0])))
    result = actgp.fit(model, X[:80], y[:80], held_out=(X[80:], y[80:]))
    assert sum(calls) == len(X)
    assert result.objectives[-1] == max(result.objectives)
    assert result.stopped == "converged"
    assert model.likelihood.noise.sqrt().item() == pytest.approx(0.1, rel=0.3)


def test_no_random_number_is_drawn() -> None:
    X, y = noisy()
    model, before = around(y, X), torch.get_rng_state()
    actgp.fit(model, X, y, progress=False)
    assert torch.equal(torch.get_rng_state(), before)


def test_steps_on_the_elbo_begin_at_the_closed_form() -> None:
    X, y = noisy()
    closed, stepped = around(y, X), around(y, X)
    held_out = X[80:], y[80:]
    actgp.fit(closed, X[:80], y[:80], held_out=held_out, progress=False)
    gentle = replace(STEPS, learning_rate=1e-9, natural_rate=1e-9, calibrate=False)
    result = actgp.fit(stepped, X[:80], y[:80], gentle, held_out=held_out, progress=False)
    torch.testing.assert_close(stepped.predict(X).variance, closed.predict(X).variance)
    assert len(result.objectives) == 3
    assert result.errors is not None
    assert result.seconds > 0


def test_steps_are_taken_up_from_a_checkpoint(tmp_path: Path) -> None:
    X, y = noisy()
    whole, again = around(y, X), around(y, X)

    def fit(model: actgp.DeepGP, path: str) -> actgp.FitResult:
        g = torch.Generator().manual_seed(0)
        return actgp.fit(model, X, y, STEPS, checkpoint=tmp_path / path, generator=g, progress=False)

    fit(whole, "run")
    fit(again, "run")  # complete already
    assert torch.equal(again.predict(X).variance, whole.predict(X).variance)


def test_what_has_no_closed_form_takes_steps() -> None:
    X, y = noisy()
    counts = actgp.convert(nn.Linear(2, 1), X, likelihood=PoissonLikelihood(), num_inducing=5)[0]
    assert not has_closed_form(counts)
    assert actgp.Recipe.suited_to(counts).num_steps == 1_000
    mixed = SoftmaxLikelihood(num_classes=3, num_features=2)  # has weights to be trained
    assert not has_closed_form(actgp.convert(nn.Linear(2, 2), X, likelihood=mixed, num_inducing=5)[0])
    trainable = around(y, X)
    trainable.backbone.requires_grad_(True)
    assert not has_closed_form(trainable)
    fixed = around(y, X)
    fixed.gp_layers[0].q.raw_scale_tril.requires_grad_(False)
    assert not has_closed_form(fixed)
    assert not has_closed_form(actgp.deep_gp(2, num_layers=1))


def test_a_network_stage_is_refused() -> None:
    X, y = noisy()
    match = r"network_steps must be 0 for a converted network, .* got 5; leave the recipe out, or pass e.g."
    for model, targets in ((around(y, X), y), (actgp.convert(nn.Linear(2, 2), X)[0], torch.cat([y, y], dim=1))):
        with pytest.raises(ValueError, match=match):
            actgp.fit(model, X, targets, actgp.Recipe(network_steps=5))


@pytest.mark.parametrize("name", ["checkpoint", "callback"])
def test_there_are_no_steps_to_save_or_to_call_back_after(name: str, tmp_path: Path) -> None:
    X, y = noisy()
    option = {"checkpoint": tmp_path / "run"} if name == "checkpoint" else {"callback": lambda step: None}
    with pytest.raises(ValueError, match=f"fitted in one go, got {name}; leave it out, or take steps on the ELBO"):
        actgp.fit(around(y, X), X, y, **option)  # type: ignore[arg-type]


def test_targets_beside_a_loader_are_refused() -> None:
    X, y = noisy()
    with pytest.raises(ValueError, match="a DataLoader gives X and y, got y again; leave it out"):
        actgp.fit(around(y, X), DataLoader(TensorDataset(X, y)), y)


def test_a_network_that_fits_all_rows_alike_is_not_said_to_overfit() -> None:
    assert "overfits" not in str(NetworkErrors(1.0, 3.9, "held-out rows"))
    assert NetworkErrors(2.0, 3.0, "leave-one-out").ratio == 1.5
