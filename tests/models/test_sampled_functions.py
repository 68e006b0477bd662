"""Functions drawn from the posterior: consistent, differentiable, and with the posterior's mean and covariance."""

import gpytorch
import pytest
import torch
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
        made.q.mean.normal_(generator=g)
        made.q.raw_scale_tril.normal_(generator=g).mul_(0.3)
    return made


@pytest.mark.parametrize("kind", ["activated", "points", "matched"])
def test_mean_and_covariance_are_the_posteriors(kind: str) -> None:
    model = actgp.DeepGP([layer(kind)], GaussianLikelihood()).double()
    X = torch.tensor([[0.0, 0.0], [0.5, -0.3], [1.5, 1.0], [-2.0, 0.5]], dtype=torch.float64)
    functions = model.sample_functions(1_000, num_features=100, generator=torch.Generator().manual_seed(1))
    values = torch.stack([f(X) for f in functions])  # [S, N]
    joint = model.gp_layers[0].joint(X)
    mean, covariance = joint.mean[0].detach(), joint.covariance_matrix[0].detach()
    sd = covariance.diagonal().sqrt()
    assert ((values.mean(0) - mean).abs() < 5 * sd / 1_000**0.5).all()
    assert ((values.T.cov() - covariance).abs() < 0.16 * sd[:, None] * sd).all()


def deep() -> actgp.DeepGP:
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(2, num_layers=2, num_inducing=8, prior_mean="identity", generator=g).double()
    for made in model.gp_layers:
        with torch.no_grad():
            made.q.mean.normal_(generator=g)
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
    with pytest.raises(TypeError, match="functions are drawn with a zonal kernel, got RBFKernel; use actgp.ArcCosine"):
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
