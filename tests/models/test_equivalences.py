"""The ladder: exact = collapsed = variational, each where theory says so."""

import gpytorch
import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood

import actgp


def data(N: int = 40, D: int = 2, P: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(N, D, dtype=torch.float64, generator=g)
    y = (
        torch.sin(2 * X[:, :1])
        + X[:, 1:2] * torch.arange(P)
        + 0.2 * torch.randn(N, P, dtype=torch.float64, generator=g)
    )
    return X, y.squeeze(-1) if P == 1 else y


def noisy(noise: float = 0.05) -> GaussianLikelihood:
    likelihood = GaussianLikelihood()
    likelihood.noise = noise
    return likelihood


def svgp_of(sgpr: actgp.SGPR, num_outputs: int = 1) -> actgp.SVGP:
    model = actgp.SVGP(sgpr.kernel, sgpr.features, sgpr.likelihood, num_outputs).double()
    posterior = sgpr.posterior()
    model.layer.q.assign(posterior.mean, posterior.scale_tril.expand(num_outputs, -1, -1))
    return model


def test_exact_log_evidence_is_the_density_of_the_data() -> None:
    X, y = data()
    kernel = actgp.ArcCosine(2).double()
    K = kernel(X).to_dense() + 0.05 * torch.eye(len(X))
    expected = torch.distributions.MultivariateNormal(torch.zeros(len(X)).double(), K).log_prob(y)
    torch.testing.assert_close(actgp.GPR(X, y, kernel, noisy()).log_evidence(), expected, rtol=1e-6, atol=1e-6)


def test_exact_prediction_is_the_conditional_gaussian() -> None:
    X, y = data()
    new = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    model = actgp.GPR(X, y, actgp.ArcCosine(2), noisy())
    noise = model.likelihood.noise.item()
    K = model.kernel(X).to_dense() + noise * torch.eye(len(X))
    k = model.kernel(new, X).to_dense()
    prediction = model.predict(new)
    torch.testing.assert_close(prediction.mean, k @ torch.linalg.solve(K, y), rtol=1e-8, atol=1e-8)
    variance = model.kernel(new, diag=True) - (k * torch.linalg.solve(K, k.T).T).sum(-1)
    torch.testing.assert_close(prediction.epistemic, variance, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(prediction.variance, variance + noise, rtol=1e-6, atol=1e-8)


def test_several_outputs_are_as_many_models() -> None:
    X, y = data(P=2)
    new = X[:5] + 0.1
    features = actgp.ActivatedFeatures(2, 30, generator=torch.Generator().manual_seed(0))
    kernel = actgp.ArcCosine(2)
    exact = actgp.GPR(X, y, kernel, noisy())
    sparse = actgp.SGPR(X, y, kernel, features, noisy())
    each_exact = [actgp.GPR(X, y[:, p], kernel, noisy()) for p in range(2)]
    each_sparse = [actgp.SGPR(X, y[:, p], kernel, features, noisy()) for p in range(2)]
    torch.testing.assert_close(exact.log_evidence(), sum(m.log_evidence() for m in each_exact))
    torch.testing.assert_close(sparse.elbo(), sum(m.elbo() for m in each_sparse))
    for model, singles in ((exact, each_exact), (sparse, each_sparse)):
        prediction = model.predict(new)
        assert prediction.mean.shape == (5, 2)
        for p, single in enumerate(singles):
            torch.testing.assert_close(prediction.mean[:, p], single.predict(new).mean)
            torch.testing.assert_close(prediction.variance[:, p], single.predict(new).variance)


@pytest.mark.parametrize("activation", ["softplus", "gelu", "swish"])
def test_the_bound_stays_below_the_evidence_and_tends_to_it(activation: str) -> None:
    X, y = data()
    evidence = actgp.GPR(X, y, actgp.ArcCosine(2), noisy()).log_evidence().item()
    bounds = [
        actgp.SGPR(
            X,
            y,
            actgp.ArcCosine(2),
            actgp.ActivatedFeatures(2, M, activation, 40, generator=torch.Generator().manual_seed(0)),
            noisy(),
        )
        .elbo()
        .item()
        for M in (4, 16, 64, 256)
    ]
    assert all(bound <= evidence for bound in bounds)
    assert bounds == sorted(bounds)
    assert evidence - bounds[-1] < 0.02 * (evidence - bounds[0])


def test_with_inducing_points_at_the_data_the_bound_is_the_evidence() -> None:
    X, y = data()
    for kernel in (actgp.ArcCosine(2), gpytorch.kernels.RBFKernel()):
        evidence = actgp.GPR(X, y, kernel, noisy()).log_evidence()
        bound = actgp.SGPR(X, y, kernel, actgp.InducingPoints(X), noisy()).elbo()
        torch.testing.assert_close(bound, evidence, rtol=1e-5, atol=0)
        assert bound <= evidence


@pytest.mark.parametrize("features", ["activated", "points"])
@pytest.mark.parametrize("P", [1, 2])
def test_svgp_at_the_optimum_is_sgpr(features: str, P: int) -> None:
    X, y = data(P=P)
    u = (
        actgp.ActivatedFeatures(2, 12, generator=torch.Generator().manual_seed(0))
        if features == "activated"
        else actgp.InducingPoints(X[:12])
    )
    sgpr = actgp.SGPR(X, y, actgp.ArcCosine(2), u, noisy())
    svgp = svgp_of(sgpr, P)
    torch.testing.assert_close(svgp.elbo(X, y, len(X)), sgpr.elbo(), rtol=1e-9, atol=1e-9)
    new = X[:6] + 0.3
    for a, b in ((svgp.predict(new), sgpr.predict(new)),):
        torch.testing.assert_close(a.mean, b.mean, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(a.variance, b.variance, rtol=1e-9, atol=1e-9)
    # It is a maximum: the gradient with respect to q vanishes, and any other q is worse.
    svgp.elbo(X, y, len(X)).backward()
    assert svgp.layer.q.raw_mean.grad.abs().max() < 1e-6
    assert svgp.layer.q.raw_scale_tril.grad.abs().max() < 1e-6
    with torch.no_grad():
        svgp.layer.q.raw_mean += 0.1
    assert svgp.elbo(X, y, len(X)) < sgpr.elbo()


def test_minibatches_are_unbiased() -> None:
    X, y = data(N=24)
    model = svgp_of(actgp.SGPR(X, y, actgp.ArcCosine(2), actgp.InducingPoints(X[:5]), noisy()))
    batches = [model.elbo(X[i : i + 6], y[i : i + 6], 24) for i in range(0, 24, 6)]
    torch.testing.assert_close(torch.stack(batches).mean(), model.elbo(X, y, 24))


def test_posterior_mean_is_a_network() -> None:
    X, y = data()
    sgpr = actgp.SGPR(X, y, actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 12, "softplus"), noisy())
    model = svgp_of(sgpr)
    W, V, kernel = model.layer.features.directions, model.layer.output_weights(), model.layer.kernel
    sigma = model.layer.features.match(kernel).shared
    lifted = torch.cat([X / kernel.lengthscale, torch.ones(len(X), 1)], dim=-1)
    r = lifted.norm(dim=-1, keepdim=True)
    network = (r * actgp.zonal_series(lifted / r @ W.T, sigma, 3)) @ V
    torch.testing.assert_close(model.predict(X).mean, network.squeeze(-1).detach(), rtol=1e-8, atol=1e-8)
