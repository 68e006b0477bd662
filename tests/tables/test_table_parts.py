"""Each part of what is fitted to a table, against what it stands for."""

from math import log

import gpytorch
import pytest
import torch
from gpytorch.likelihoods import Likelihood
from torch import Tensor

import actgp
from actgp.features import InducingPoints
from actgp.layers import GPLayer
from actgp.tables.around import deep_gp_around
from actgp.tables.clock import Clock
from actgp.tables.cross_fit import (
    blending_shares,
    classification,
    cross_fit,
    folds,
    most_probable_shares,
    rate_at,
    regression,
    together,
)
from actgp.tables.evidence import arc_cosine, evidence_maxima, matern
from actgp.tables.members import gp_member, gp_prior
from actgp.tables.one_layer import fit_one_layer
from actgp.tables.one_layer_labels import fit_labels
from actgp.tables.stacking import stacking_weights
from actgp.tables.targets import Targets


def data(N: int, D: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(N, D, dtype=torch.float64, generator=g)
    y = torch.sin(2 * X[:, :1]) + 0.2 * torch.randn(N, 1, dtype=torch.float64, generator=g)
    return X, (y - y.mean()) / y.std()


@pytest.mark.parametrize("make", [arc_cosine, matern])
def test_the_evidence_rises_and_finds_the_column_that_counts(make: object) -> None:
    X, y = data(80, 3)
    kernel = make(3)  # type: ignore[operator]
    found = evidence_maxima(kernel, X, y)[0]
    base = found.kernel if isinstance(found.kernel, actgp.ArcCosine) else found.kernel.base_kernel
    scales = base.lengthscale.detach().flatten()
    assert scales.argmin() == 0
    assert scales[1:].min() > 2 * scales[0]
    assert 0.02 < found.noise < 0.2  # (0.2 / 0.7)² = 0.08


def layer_of(X: Tensor, kernel: gpytorch.kernels.Kernel) -> actgp.DeepGP:
    likelihood = actgp.ContaminatedGaussianLikelihood(
        noise_constraint=gpytorch.constraints.GreaterThan(1e-8), share=0.02, input_dim=X.shape[1]
    )
    return actgp.DeepGP([GPLayer(kernel, InducingPoints(X), 1)], likelihood).double()


def test_left_out_densities_are_those_of_new_rows() -> None:
    """What a fit says of its rows without themselves is what they bring when they are new, on average."""
    X, y = data(600)
    kernel = matern(2)
    kernel, noise, _ = evidence_maxima(kernel, X[:200], y[:200])[0]
    model = layer_of(X[:200], kernel)
    left_out, error = fit_one_layer(model, X[:200], y[:200], noise)
    new = model.predict(X[200:]).log_prob(y[200:, 0])
    new_error = (model.predict(X[200:]).mean - y[200:, 0]).square().mean().item()
    assert left_out.shape == (200,)
    assert error == pytest.approx(new_error, rel=0.25)
    assert abs(left_out.mean().item() - new.mean().item()) < 4 * (new.var() / 200).sqrt().item()


@pytest.mark.parametrize("make", [arc_cosine, matern])
def test_many_rows_without_noise_leave_no_doubt(make: object) -> None:
    X = torch.linspace(-2, 2, 300, dtype=torch.float64).unsqueeze(1)
    y = 1.4 * torch.sin(2 * X)
    kernel = make(1)  # type: ignore[operator]
    kernel, noise, _ = evidence_maxima(kernel, X, y)[0]
    model = layer_of(X, kernel)
    densities, error = fit_one_layer(model, X, y, noise)
    prediction = model.predict(X[:-1] + 0.5 * X.diff(dim=0))
    assert (prediction.mean - 1.4 * torch.sin(2 * X[:-1] + X.diff(dim=0)).squeeze(1)).abs().max() < 1e-2
    assert prediction.variance.sqrt().max() < 0.05
    assert error < 1e-4
    assert densities.mean() > 3.0


def test_an_outlier_does_not_pull() -> None:
    X, y = data(150)
    y[10] += 30.0
    kernel = matern(2)
    kernel, noise, _ = evidence_maxima(kernel, X, y)[0]
    model = layer_of(X, kernel)
    fit_one_layer(model, X, y, noise)
    assert (model.predict(X[10:11]).mean - torch.sin(2 * X[10, 0])).abs().item() < 1.0
    lower, upper = model.predict(X).interval(0.9)
    assert (upper - lower).median().item() < 3.0
    assert model.likelihood.outlier_noise.item() > 20 * model.likelihood.noise.item()


def test_noise_follows_the_inputs() -> None:
    X, _ = data(400)
    g = torch.Generator().manual_seed(2)
    y = torch.exp(X[:, 1:]) * torch.randn(400, 1, dtype=torch.float64, generator=g)
    y = y / y.std()
    kernel, noise, _ = evidence_maxima(matern(2), X, y)[0]
    model = layer_of(X, kernel)
    fit_one_layer(model, X, y, noise)
    wide, narrow = (model.predict(torch.tensor([[0.0, x]]).double()).aleatoric.item() for x in (1.0, -1.0))
    assert wide > 4 * narrow


def test_rounded_targets_bound_the_noise() -> None:
    X, y = data(200)
    rounded = y.round()
    kernel = matern(2)
    model = layer_of(X, kernel)
    fit_one_layer(model, X, rounded, 1e-6)
    assert model.likelihood.noise.item() >= 1 / 12


def test_stacking_weights_maximise_the_mixture() -> None:
    g = torch.Generator().manual_seed(0)
    L = torch.randn(500, 3, dtype=torch.float64, generator=g) - torch.tensor([0.0, 0.1, 0.2])
    w = stacking_weights(L)
    assert w.sum().item() == pytest.approx(1.0)

    def objective(w: Tensor) -> float:
        return ((L + w.log()).logsumexp(1).sum() + (w.log() / 3).sum()).item()

    others = (w + 0.02 * torch.randn(50, 3, dtype=torch.float64, generator=g)).clamp_min(0.01)
    for other in others / others.sum(1, keepdim=True):
        assert objective(other) <= objective(w) + 1e-6


def test_models_that_count_for_little_are_left_out() -> None:
    g = torch.Generator().manual_seed(0)
    L = torch.randn(500, 3, dtype=torch.float64, generator=g) - torch.tensor([0.0, 0.2, 5.0])
    w = stacking_weights(L)
    assert w[2] == 0.0
    assert torch.allclose(w[:2], stacking_weights(L[:, :2]))
    assert torch.allclose(stacking_weights(torch.zeros(10, 4).double()), torch.full((4,), 0.25).double())
    few = stacking_weights(torch.tensor([[0.0, -50.0]]).double())
    assert few[1].item() > 0.1  # a single row does not rule a model out


def test_folds() -> None:
    seen, unseen = folds(23, 5, 2, torch.Generator().manual_seed(0))
    assert unseen.shape == (10, 5) and seen.shape == (10, 18)
    for fold, others in zip(unseen, seen, strict=True):
        assert not set(fold.tolist()) & set(others.tolist())
    for group in unseen.split(5):
        assert set(group.flatten().tolist()) == set(range(23))
    assert not torch.equal(*(group.sort(1).values for group in unseen.split(5)))  # each group has folds of its own


def test_cross_fitted_networks_have_not_seen_their_rows() -> None:
    X, _ = data(200)
    g = torch.Generator().manual_seed(3)
    y = torch.randn(200, 1, dtype=torch.float64, generator=g)  # nothing to learn
    crossed = cross_fit(X, regression(y)._replace(together=without_scaling), 4, 300, Clock(None), g)
    assert crossed.error == pytest.approx((y - crossed.left_out).square().mean().item(), rel=1e-5)
    assert crossed.error > 0.95 * y.var().item()


def without_scaling(f: Tensor, shares: Tensor, y: Tensor, num_blends: int) -> Tensor:
    return torch.tensordot(shares, f, dims=1)


def test_all_rows_are_learnt_from_in_the_end() -> None:
    """Each row is left out of a network in each group, and known to all of them afterwards."""
    g = torch.Generator().manual_seed(3)
    X = torch.randn(60, 3, dtype=torch.float64, generator=g)
    y = X[:, :1].sign() * X[:, 1:2].abs()
    crossed = cross_fit(X, regression(y), 3, 400, Clock(None), g)
    found = crossed.networks.blended(X.float()).double().mean(0)
    assert (y - found).square().mean().item() < 0.5 * crossed.error


def test_several_networks_are_nearer_than_one() -> None:
    g = torch.Generator().manual_seed(0)
    truth, noise = torch.randn(2, 20_000, 1, generator=g, dtype=torch.float64)
    y, shares = truth + 0.3 * noise, torch.tensor([0.6, 0.4], dtype=torch.float64)
    by_chance = torch.tensor([0.3, 0.6], dtype=torch.float64).view(2, 1, 1)
    f = truth + by_chance * torch.randn(5, 2, 20_000, 1, generator=g, dtype=torch.float64)  # five blends of two
    wanted = (y - torch.tensordot(f.mean(0), shares, dims=([0], [0]))).square().mean()
    found = together(f[0], shares, y, 5)
    torch.testing.assert_close((y - found).square().mean(), wanted, rtol=0.03, atol=0.0)
    r = y - torch.tensordot(shares, f[0], dims=1)
    torch.testing.assert_close((y - found) / r, ((y - found) / r)[:1].expand_as(r), rtol=1e-9, atol=1e-9)


def test_the_blend_has_the_least_error() -> None:
    g = torch.Generator().manual_seed(0)
    f, y = torch.randn(2, 300, 2, generator=g), torch.randn(300, 2, generator=g)
    y = y + 0.7 * f[0] + 0.2 * f[1]
    best = blending_shares(f, y)
    errors = [(y - s * f[0] - (1 - s) * f[1]).square().sum().item() for s in torch.linspace(0, 1, 101)]
    assert best[0].item() == pytest.approx(torch.tensor(errors).argmin().item() / 100, abs=0.01)
    assert blending_shares(f, 2 * f[0]).tolist() == [1.0, 0.0]
    assert torch.isfinite(blending_shares(f[:1].expand(2, -1, -1), y)).all()


def test_rates_fall_and_rise_and_end_at_zero() -> None:
    assert rate_at(0.0) == pytest.approx(0.0)
    assert rate_at(1.0) == pytest.approx(0.0, abs=1e-9)
    assert rate_at(2**0.5 / 15 - 1 / 15) == pytest.approx(1.0)


@pytest.mark.parametrize("D", [2, 30])
def test_a_deep_gp_around_networks_has_their_mean(D: int) -> None:
    g = torch.Generator().manual_seed(0)
    h = torch.randn(80, D + 2, dtype=torch.float64, generator=g)
    model = deep_gp_around(h, 2, g)
    assert torch.allclose(model.mean(h), h[:, D:])
    assert model.gp_layers[1].input_dim == min(D, 16) + 2
    assert model.likelihood.share == pytest.approx(0.01)
    assert log(model.gp_layers[0].features.num_inducing) == log(64)


def test_time_ends_networks_early_and_with_small_rates() -> None:
    X, y = data(200)
    steps: list[float] = []
    clock = Clock(0.3)
    cross_fit(X, regression(y), 2, 1_000_000, clock, torch.Generator().manual_seed(0), steps.append)
    assert 0.75 * 0.3 <= clock.seconds < 2.0
    assert 0 < len(steps) < 1_000_000


def test_networks_of_labels_are_blended_by_likelihood() -> None:
    """Logits twice as long as they should be are halved."""
    g = torch.Generator().manual_seed(0)
    f = 2 * torch.randn(4_000, 1, dtype=torch.float64, generator=g)
    y = (torch.rand(4_000, 1, dtype=torch.float64, generator=g) < f.sigmoid()).double()
    task = classification(y, actgp.BernoulliLogitLikelihood(), 1)
    shares = task.shares(torch.stack([2 * f, torch.randn(4_000, 1, generator=g, dtype=torch.float64)]), y)
    assert shares[0].item() == pytest.approx(0.5, abs=0.08)
    best = most_probable_shares(torch.stack([f, f]), lambda b: -task.loss(b, y).sum())
    assert best.sum().item() == pytest.approx(1.0, abs=0.1)


def label_gp(h: Tensor, likelihood: Likelihood, P: int) -> actgp.DeepGP:
    layer = GPLayer(arc_cosine(h.shape[1]), InducingPoints(h), P)
    return actgp.DeepGP([layer], likelihood).double()


@pytest.mark.parametrize("num_classes", [2, 3])
def test_labels_left_out_are_predicted_as_by_a_gp_without_them(num_classes: int) -> None:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(40, 2, dtype=torch.float64, generator=g)
    labels = ((X[:, 0] + 0.8 * torch.randn(40, dtype=torch.float64, generator=g)) > 0).long()
    labels = labels if num_classes == 2 else labels + (X[:, 1] > 0.5).long()
    y = Targets.of_labels(labels)
    left_out = fit_labels(label_gp(X, y.likelihood(2), y.num_outputs), X, y.values)
    by_refitting = []
    for i in range(0, 40, 4):
        rows = torch.arange(40) != i
        model = label_gp(X, y.likelihood(2), y.num_outputs)
        fit_labels(model, X[rows], y.values[rows])
        by_refitting.append(model.predict(X[i : i + 1]).log_prob(y.values[i : i + 1]).item())
    difference = left_out.densities[::4] - torch.tensor(by_refitting).double()
    assert difference.abs().mean() < 0.1  # v is chosen anew, and may be another of the grid


def test_labels_are_carried_by_a_prior_mean_that_knows_them() -> None:
    """Where logits are right, the GP around them adds next to nothing."""
    g = torch.Generator().manual_seed(0)
    X = torch.randn(600, 2, dtype=torch.float64, generator=g)
    f = 2 * X[:, :1]
    y = Targets.of_labels((torch.rand(600, 1, dtype=torch.float64, generator=g) < f.sigmoid()).long()[:, 0])
    h = torch.cat([X, f], dim=1)
    prior = gp_prior("GP around networks", h, y, g, carried=1)
    member = gp_member(prior, h, y, torch.arange(600))
    assert member.error == pytest.approx(y.error(f), abs=0.01)
    assert (member.model.predict(h).latent_mean - f[:, 0]).abs().max() < 0.6
