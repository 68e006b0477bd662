"""Functions drawn from the posterior: consistent, differentiable, and with the posterior's mean and covariance."""

import gpytorch
import pytest
import torch
from every_kernel import KERNELS
from gpytorch.likelihoods import GaussianLikelihood
from torch.autograd import gradcheck

import actgp


def layer(kind: str, num_outputs: int = 1) -> actgp.GPLayer:
    g = torch.Generator().manual_seed(0)
    features = (
        actgp.ActivatedFeatures(2, 6, "softplus", generator=g)
        if kind == "activated"
        else actgp.InducingPoints(torch.randn(6, 2, generator=g))
    )
    kernel = actgp.MatchedKernel(2, "softplus") if kind == "matched" else actgp.ArcCosine(2)
    kernel.variance = 1.5
    made = actgp.GPLayer(kernel, features, num_outputs)
    with torch.no_grad():
        made.q.raw_mean.normal_(generator=g)
        made.q.raw_scale_tril.normal_(generator=g).mul_(0.3)
    return made


def check_moments(layer: actgp.GPLayer, X: torch.Tensor) -> None:
    """Mean and covariance of many functions against those of the posterior."""
    model = actgp.DeepGP([layer], GaussianLikelihood()).double()
    functions = model.sample_functions(1_000, num_features=100, generator=torch.Generator().manual_seed(1))
    values = torch.stack([f(X) for f in functions])  # [S, N]
    joint = model.gp_layers[0].joint(X)
    mean, covariance = joint.mean[0].detach(), joint.covariance_matrix[0].detach()
    sd = covariance.diagonal().sqrt()
    assert ((values.mean(0) - mean).abs() < 5 * sd / 1_000**0.5).all()
    assert ((values.T.cov() - covariance).abs() < 0.2 * sd[:, None] * sd).all()


@pytest.mark.parametrize("kind", ["activated", "points", "matched"])
def test_mean_and_covariance_are_the_posteriors(kind: str) -> None:
    check_moments(layer(kind), torch.tensor([[0.0, 0.0], [0.5, -0.3], [1.5, 1.0], [-2.0, 0.5]], dtype=torch.float64))


@pytest.mark.parametrize("D", [1, 40, 800])
@pytest.mark.parametrize("name", KERNELS)
def test_every_level_of_a_prior_is_drawn(name: str, D: int) -> None:
    # E[h(ω·x̂) h(ω·x̂')] = s(x̂·x̂'). Levels that are missing are seen between points that are close,
    # E[(h(ω·x̂) − h(ω·x̂'))²] = 2 − 2 s, whose slope is that of the highest levels.
    g = torch.Generator().manual_seed(D)
    kernel, F = KERNELS[name](D), 20_000
    shapes = kernel.random_shapes(F, generator=g)
    omega = torch.nn.functional.normalize(torch.randn(F, D + 1, dtype=torch.float64, generator=g), dim=-1)
    angles = torch.tensor([0.003, 0.03, 0.3, 1.0, 3.0], dtype=torch.float64)
    h = shapes(omega[:, :1])  # x̂ is the first axis, x̂' in the plane of the first two: [F, 1]
    turned = shapes(omega[:, :1] * angles.cos() + omega[:, 1:2] * angles.sin())  # [F, 5]
    for found, expected in (
        (h * turned, kernel.shape(angles.cos())),
        ((h - turned).square(), 2 - 2 * kernel.shape(angles.cos())),
    ):
        error = (found.mean(0) - expected).abs() / (found.std(0) / F**0.5)
        assert (error < 5).all()


@pytest.mark.parametrize("D", [1, 100])
@pytest.mark.parametrize("name", [name for name in KERNELS if name != "spectral"])
def test_energies_of_random_shapes_are_those_of_what_they_are(name: str, D: int) -> None:
    # Σ_n e_n P_n, with enough levels, is the function itself.
    kernel = KERNELS[name](D)
    shapes = kernel.random_shapes(5, generator=torch.Generator().manual_seed(2))
    t = torch.linspace(-0.3, 0.3, 7, dtype=torch.float64) / max(1.0, D**0.5 / 2)
    e = shapes.energies(60)
    series = torch.stack([actgp.zonal_series(t, row, D + 1) for row in e])
    rough = {"order 0": 0.3, "order 1": 0.1, "order 2": 3e-3}.get(name, 1e-8)
    waves = getattr(shapes, "wave_numbers", torch.zeros(len(e), dtype=torch.float64))
    slow = waves < 40  # faster ones need more levels
    expected = shapes(t.expand(len(e), -1))
    assert slow.any()
    torch.testing.assert_close(series[slow], expected[slow], rtol=rough, atol=rough)


@pytest.mark.filterwarnings("ignore::actgp.SpectralMismatchWarning")
@pytest.mark.parametrize(("name", "D", "units"), [("Matérn 1/2", 1, 0), ("order 0", 3, 0), ("Matérn 3/2", 4, 6)])
def test_what_inducing_variables_leave_of_a_rough_prior_is_drawn(name: str, D: int, units: int) -> None:
    g = torch.Generator().manual_seed(0)
    Z = torch.linspace(-2, 2, 12)[:, None] if D == 1 else torch.randn(12, D, generator=g)
    activated = actgp.ActivatedFeatures(D, units, num_levels=6, generator=g) if units else None
    made = actgp.GPLayer(KERNELS[name](D), actgp.InducingPoints(Z) if activated is None else activated)
    with torch.no_grad():
        made.q.raw_mean.normal_(generator=g)
        made.q.raw_scale_tril.diagonal(dim1=-2, dim2=-1).fill_(-6.0)
    near = (Z[2:5] + 0.1 * torch.randn(3, D, generator=g)).double()
    check_moments(made, torch.cat([near, 3 * near[:1]]))


def test_levels_that_are_not_drawn_are_told() -> None:
    with pytest.warns(
        UserWarning, match=r"functions of CustomKernel are drawn with 128 levels, and [\d.]+% of the prior"
    ):
        actgp.CustomKernel(1, lambda t: 1 - torch.sqrt((1 - t) / 2)).random_shapes(10)


def deep() -> actgp.DeepGP:
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(
        2, num_layers=2, num_inducing=8, layers=actgp.Layers(prior_mean="identity"), generator=g
    ).double()
    for made in model.gp_layers:
        with torch.no_grad():
            made.q.raw_mean.normal_(generator=g)
            made.q.raw_scale_tril.sub_(torch.eye(8))
    return model


def test_deep_functions_have_the_predictions_moments() -> None:
    model, X = deep(), torch.tensor([[0.2, 0.1], [-1.0, 0.8]], dtype=torch.float64)
    functions = model.sample_functions(600, num_features=100, generator=torch.Generator().manual_seed(1))
    values = torch.stack([f(X) for f in functions])
    prediction = model.predict(X, num_samples=4_000)
    sd = prediction.latent_variance.sqrt()
    assert ((values.mean(0) - prediction.latent_mean).abs() < 0.2 * sd).all()
    torch.testing.assert_close(values.std(0), sd, rtol=0.15, atol=0)


def test_functions_are_consistent_across_calls_and_training() -> None:
    model = deep()
    (f,) = model.sample_functions(1, generator=torch.Generator().manual_seed(1))
    X = torch.randn(10, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    whole = f(X)
    assert torch.equal(f(X), whole)
    torch.testing.assert_close(torch.cat([f(X[:3]), f(X[3:])]), whole)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    assert torch.equal(f(X), whole)
    (again,) = deep().sample_functions(1, generator=torch.Generator().manual_seed(1))
    assert torch.equal(again(X), whole)


def test_functions_are_differentiable() -> None:
    (f,) = deep().sample_functions(1, num_features=20, generator=torch.Generator().manual_seed(1))
    X = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    assert gradcheck(f, (X,))


def test_precision_follows_the_input() -> None:
    (f,) = deep().float().sample_functions(1, generator=torch.Generator().manual_seed(1))
    assert f(torch.zeros(2, 2)).dtype == torch.float32


def test_what_cannot_be_drawn_is_refused() -> None:
    points = actgp.InducingPoints(torch.randn(4, 2))
    rbf = actgp.DeepGP([actgp.GPLayer(gpytorch.kernels.RBFKernel(), points)], GaussianLikelihood())
    with pytest.raises(TypeError, match="functions are drawn with a zonal kernel, .* got RBFKernel; use actgp"):
        rbf.sample_functions(1)
    with pytest.raises(ValueError, match="num_functions must be at least 1, got 0"):
        deep().sample_functions(0)
    (f,) = deep().sample_functions(1)
    with pytest.raises(ValueError, match="X must have 2 columns, got 3"):
        f(torch.zeros(2, 3).double())


def test_a_function_stays_what_it_is_when_the_backbone_changes() -> None:
    backbone = torch.nn.Linear(3, 2).double()
    inner = deep()
    model = actgp.DeepGP(inner.gp_layers, inner.likelihood, backbone)
    X = torch.randn(4, 3, dtype=torch.float64)
    (f,) = model.sample_functions(1)
    before = f(X)
    with torch.no_grad():
        backbone.weight.add_(1.0)
    assert torch.equal(f(X), before)


@pytest.mark.parametrize("nu", [0.5, 2.5])
def test_functions_of_gpytorchs_matern_kernel_have_its_moments(nu: float) -> None:
    g = torch.Generator().manual_seed(0)
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu, ard_num_dims=2)).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 2.0, torch.tensor([[0.5, 1.5]])
    layer = actgp.GPLayer(kernel, actgp.InducingPoints(torch.randn(5, 2, generator=g))).double()
    layer.q.raw_mean.data.normal_(generator=g)
    layer.q.raw_scale_tril.data.sub_(torch.eye(5))
    model = actgp.DeepGP([layer], actgp.ContaminatedGaussianLikelihood()).double()
    X = torch.randn(6, 2, dtype=torch.float64, generator=g)
    drawn = torch.stack([f(X) for f in model.sample_functions(3_000, num_features=300, generator=g)]).detach()
    expected = layer.joint(X)
    error = (expected.variance[0] / 3_000).sqrt()
    assert ((drawn.mean(0) - expected.mean[0]).abs() < 5 * error).all()
    assert torch.allclose(drawn.T.cov(), expected.covariance_matrix[0], atol=0.15)
