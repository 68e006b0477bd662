"""The way from a network to a posterior."""

import pytest
import torch
from gpytorch.constraints import Interval
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    Likelihood,
    SoftmaxLikelihood,
    StudentTLikelihood,
)
from gpytorch.likelihoods.poisson_likelihood import PoissonLikelihood

import actgp
from actgp import Recipe
from actgp.likelihoods import targets
from actgp.linalg import posterior_scale
from actgp.training import warm_start
from actgp.training.data import TensorBatches
from actgp.training.objectives import posterior_objective
from actgp.training.warm_start import ScaledModel, gauss_newton, seek

LIKELIHOODS: dict[str, tuple[Likelihood, int]] = {
    "gaussian": (GaussianLikelihood(), 1),
    "outliers": (actgp.ContaminatedGaussianLikelihood(), 1),
    "student": (StudentTLikelihood(), 1),
    "bernoulli": (BernoulliLikelihood(), 1),
    "poisson": (PoissonLikelihood(), 1),
    "softmax": (SoftmaxLikelihood(num_classes=3, mixing_weights=False), 3),
}


def data(name: str, dtype: torch.dtype, N: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    X = torch.randn(N, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    f = torch.sin(2 * X[:, 0])
    values = {"bernoulli": f > 0, "poisson": (f + 1).round(), "softmax": (f > -0.5).long() + (f > 0.5).long()}
    return X.to(dtype), values.get(name, f).to(dtype)


def deep(likelihood: Likelihood, P: int, dtype: torch.dtype) -> actgp.DeepGP:
    g = torch.Generator().manual_seed(1)
    model = actgp.deep_gp(
        2, P, 2, 12, likelihood=likelihood, layers=actgp.Layers(kernel="matched", activation="softplus"), generator=g
    )
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.raw_mean.normal_(0.0, 0.5, generator=g)
    return model.to(dtype)


def batches_of(model: actgp.DeepGP, X: torch.Tensor, y: torch.Tensor) -> TensorBatches:
    y = targets(model.likelihood, y, len(X), model.num_outputs, X.dtype)
    return TensorBatches(X, y, 16, torch.Generator().manual_seed(0))


def test_one_layer_and_gaussian_noise_give_the_exact_posterior_covariance() -> None:
    X, y = data("gaussian", torch.float64)
    sgpr = actgp.SGPR(
        X, y, actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 8, generator=torch.Generator().manual_seed(0))
    )
    sgpr.likelihood.noise = 0.05
    model = actgp.SVGP(sgpr.kernel, sgpr.features, sgpr.likelihood).double()
    (curvature,) = gauss_newton(model, batches_of(model, X, y))
    posterior = sgpr.posterior()
    torch.testing.assert_close(posterior_scale(curvature)[0], posterior.scale_tril, rtol=1e-6, atol=1e-8)


def test_curvature_is_the_second_derivative_through_the_layers_above() -> None:
    # For one observation with Gaussian noise and f_L nearly linear in h, −∂² log p/∂m² = JᵀJ / noise.
    model = deep(GaussianLikelihood(), 1, torch.float64)
    X, y = data("gaussian", torch.float64, N=1)
    (first, _) = gauss_newton(model, batches_of(model, X, y))
    mean = model.gp_layers[0].q.mean
    (J,) = torch.autograd.grad(model.mean(X).sum(), mean)  # [M, P]
    expected = torch.einsum("mp,np->pmn", J, J) / model.likelihood.noise.item()
    torch.testing.assert_close(first, expected, rtol=1e-6, atol=1e-10)


def test_scales_are_lower_triangular_roots(generator: torch.Generator) -> None:
    B = torch.randn(2, 5, 5, dtype=torch.float64, generator=generator)
    S = posterior_scale(B @ B.mT)
    assert torch.equal(S, S.tril())
    identity = torch.eye(5, dtype=torch.float64).expand(2, 5, 5)
    torch.testing.assert_close(S @ S.mT @ (B @ B.mT + identity), identity)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_likelihood_starts_warm_with_its_mean_unchanged(name: str, dtype: torch.dtype) -> None:
    likelihood, P = LIKELIHOODS[name]
    model = deep(likelihood, P, dtype)
    X, y = data(name, dtype)
    batches = batches_of(model, X, y)
    recipe = Recipe(objective="elbo", kl_weight=1.0, num_samples=4)
    before = model.mean(X).detach()

    def objective() -> float:
        g = torch.Generator().manual_seed(0)
        return posterior_objective(model, X, batches.y, len(X), recipe, 1.0, g).objective.item()

    cold = objective()
    warm_start(model, batches, recipe, 1.0)
    tolerance = 1e-3 if dtype == torch.float32 else 1e-8
    torch.testing.assert_close(model.mean(X), before, rtol=tolerance, atol=tolerance)
    assert objective() > cold


def test_outliers_start_ten_times_as_wide_as_the_error_of_the_network() -> None:
    free, frozen = (deep(actgp.ContaminatedGaussianLikelihood(), 1, torch.float64) for _ in range(2))
    frozen.likelihood.raw_outlier_noise.requires_grad_(False)
    before = frozen.likelihood.outlier_noise.item()
    X, y = data("gaussian", torch.float64)
    for model in (free, frozen):
        warm_start(model, batches_of(model, X, y), Recipe(), 1.0)
    error = (free.mean(X) - y).square().mean().item()
    assert free.likelihood.outlier_noise.item() == pytest.approx(100 * error)
    assert frozen.likelihood.outlier_noise.item() == before


def test_outliers_start_wide_also_beside_noise_that_is_fixed_and_within_their_bounds() -> None:
    fixed, bounded = (deep(actgp.ContaminatedGaussianLikelihood(), 1, torch.float64) for _ in range(2))
    fixed.likelihood.raw_noise.requires_grad_(False)
    bounded.likelihood.register_constraint("raw_outlier_noise", Interval(0.01, 0.5))
    X, y = data("gaussian", torch.float64)
    for model in (fixed, bounded):
        warm_start(model, batches_of(model, X, y), Recipe(), 1.0)
    error = (fixed.mean(X) - y).square().mean().item()
    assert fixed.likelihood.outlier_noise.item() == pytest.approx(100 * error)
    assert 0.01 < bounded.likelihood.outlier_noise.item() < 0.5


def test_scaling_leaves_the_mean_and_moves_the_rest() -> None:
    model = deep(GaussianLikelihood(), 1, torch.float64)
    X, y = data("gaussian", torch.float64)
    batches = batches_of(model, X, y)
    before, noise = model.mean(X).detach(), model.likelihood.noise.item()
    with torch.no_grad():
        ScaledModel(model, gauss_newton(model, batches)).apply((0.1, 7.0, 2.0), 1.0)
    torch.testing.assert_close(model.mean(X), before)
    assert [layer.kernel.variance.item() for layer in model.gp_layers] == pytest.approx([0.1, 7.0])
    assert model.likelihood.noise.item() == pytest.approx(2 * noise)


def test_the_search_finds_a_peak_and_moves_only_what_is_free() -> None:
    def peak(scales: tuple[float, ...]) -> float:
        x = torch.tensor(scales).log10()
        return -((x - torch.tensor([-3.0, 5.0, 2.0])) ** 2).sum().item()

    best = seek(peak, (True, False, True))
    assert best[1] == 1.0
    assert [best[0], best[2]] == pytest.approx([1e-3, 1e2])
    assert seek(lambda scales: float("nan"), (True,)) == (1.0,)


def test_other_kernels_keep_their_scale_or_use_their_own(generator: torch.Generator) -> None:
    X, y = data("gaussian", torch.float64)
    for kernel, free in ((ScaleKernel(RBFKernel()), True), (RBFKernel(), False)):
        points = actgp.InducingPoints(X[:10].clone())
        model = actgp.SVGP(kernel, points, GaussianLikelihood()).double()
        with torch.no_grad():
            model.layer.q.raw_mean.normal_(generator=generator)
        before = model.mean(X).detach()
        batches = batches_of(model, X, y)
        assert ScaledModel(model, gauss_newton(model, batches)).free == (free, True)
        warm_start(model, batches, Recipe(objective="elbo"), 1.0)
        torch.testing.assert_close(model.mean(X), before, rtol=1e-6, atol=1e-6)
