import copy
from pathlib import Path

import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch.autograd import gradcheck
from torch.distributions import MultivariateNormal, kl_divergence

import actgp
from actgp.layers import WhitenedGaussian


def random_layer(num_outputs: int = 2, dtype: torch.dtype = torch.float64, seed: int = 0) -> actgp.GPLayer:
    g = torch.Generator().manual_seed(seed)
    layer = actgp.GPLayer(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 6, generator=g), num_outputs).to(dtype)
    S = torch.randn(num_outputs, 6, 6, generator=g).tril(-1) * 0.3 + torch.diag_embed(
        torch.rand(num_outputs, 6, generator=g) + 0.2
    )
    layer.q.assign(torch.randn(6, num_outputs, generator=g), S)
    return layer


def test_kl_is_torchs(dtype: torch.dtype, tolerance: dict[str, float]) -> None:
    q = random_layer(3, dtype).q
    prior = MultivariateNormal(torch.zeros(6, dtype=dtype), torch.eye(6, dtype=dtype))
    expected = sum(kl_divergence(MultivariateNormal(q.mean[:, p], scale_tril=q.scale_tril[p]), prior) for p in range(3))
    torch.testing.assert_close(q.kl(), expected, **tolerance)


def test_kl_against_monte_carlo(generator: torch.Generator) -> None:
    q = random_layer(1).q
    distribution = MultivariateNormal(q.mean[:, 0], scale_tril=q.scale_tril[0])
    noise = torch.randn(200_000, 6, dtype=torch.float64, generator=generator)
    v = q.mean[:, 0] + noise @ q.scale_tril[0].T
    prior = MultivariateNormal(torch.zeros(6).double(), torch.eye(6).double())
    terms = (distribution.log_prob(v) - prior.log_prob(v)).detach()
    assert terms.mean().item() == pytest.approx(q.kl().item(), abs=5 * terms.std().item() / 200_000**0.5)


def test_the_prior_is_where_q_starts() -> None:
    q = WhitenedGaussian(4, 2)
    assert q.kl().item() == 0.0
    assert torch.equal(q.scale_tril, torch.eye(4).expand(2, 4, 4))


def test_at_the_prior_the_marginals_are_the_priors(dtype: torch.dtype, tolerance: dict[str, float]) -> None:
    layer = actgp.GPLayer(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 20), 2).to(dtype)
    X = torch.randn(7, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))
    mean, variance = layer(X)
    assert mean.abs().max() == 0
    torch.testing.assert_close(variance, layer.kernel(X, diag=True)[:, None].expand(-1, 2), **tolerance)


def test_whitened_is_unwhitened() -> None:
    # q(u) = N(L m, L S Sᵀ Lᵀ): eq. 2 of the paper with Σ and μ of u itself.
    layer = random_layer()
    X = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    L = layer.cholesky().L
    Kuu, Kuf = L @ L.T, layer.features.Kuf(layer.kernel, X)
    mu = L @ layer.q.mean
    mean, variance = layer(X)
    solved = torch.linalg.solve(Kuu, Kuf)
    torch.testing.assert_close(mean, solved.T @ mu, rtol=1e-7, atol=1e-7)
    for p in range(2):
        Sigma = L @ layer.q.scale_tril[p] @ layer.q.scale_tril[p].T @ L.T
        covariance = layer.kernel(X).to_dense() + solved.T @ (Sigma - Kuu) @ solved
        torch.testing.assert_close(variance[:, p], covariance.diagonal(), rtol=1e-7, atol=1e-7)


def test_mean_is_a_network_layer(dtype: torch.dtype) -> None:
    layer = random_layer(3, dtype)
    X = torch.randn(50, 2, dtype=dtype, generator=torch.Generator().manual_seed(1))
    V = layer.output_weights().detach()
    hidden = layer.features.Kuf(layer.kernel, X)
    network = (hidden.double().T @ V).to(dtype)
    scale = V.abs().max().item() * hidden.abs().max().item()
    assert (layer(X).mean - network).abs().max() < 100 * torch.finfo(dtype).eps * scale


def test_joint_agrees_with_marginals() -> None:
    layer = random_layer(2)
    X = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    joint, (mean, variance) = layer.joint(X), layer(X)
    assert joint.batch_shape == (2,)
    torch.testing.assert_close(joint.mean, mean.T)
    torch.testing.assert_close(joint.variance, variance.T)
    assert torch.linalg.eigvalsh(joint.covariance_matrix).min() > -1e-10


def test_gradients() -> None:
    layer = random_layer(1)
    X = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    assert gradcheck(lambda X: tuple(layer(X)), (X,))


def test_rank_deficient_circle_in_single_precision() -> None:
    layer = actgp.GPLayer(
        actgp.ArcCosine(1), actgp.ActivatedFeatures(1, 500, generator=torch.Generator().manual_seed(0))
    )
    X = torch.linspace(-3, 3, 40)[:, None]
    mean, variance = layer(X)
    torch.testing.assert_close(variance[:, 0], layer.kernel(X, diag=True), rtol=1e-3, atol=1e-3)
    (mean.sum() + variance.sum()).backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


def test_bad_layers_are_refused() -> None:
    features = actgp.ActivatedFeatures(2, 5)
    with pytest.raises(TypeError, match="kernel must be a gpytorch kernel, got str; pass e.g. actgp.ArcCosine"):
        actgp.GPLayer("arccosine", features)
    with pytest.raises(TypeError, match="features must be inducing features, got Tensor; pass actgp.ActivatedFeatures"):
        actgp.GPLayer(actgp.ArcCosine(2), torch.zeros(5, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_outputs must be at least 1, got 0"):
        actgp.GPLayer(actgp.ArcCosine(2), features, 0)
    q = WhitenedGaussian(3, 1)
    with pytest.raises(ValueError, match=r"must have mean \[3, 1\] and scale_tril \[1, 3, 3\], got \[3\] and"):
        q.assign(torch.zeros(3), torch.eye(3)[None])
    with pytest.raises(ValueError, match="scale_tril must have a positive diagonal, got a smallest entry of -1"):
        q.assign(torch.zeros(3, 1), -torch.eye(3)[None])


@pytest.mark.parametrize("prior_mean", ["module", "carried"])
def test_a_prior_mean_is_added_to_the_layer(prior_mean: str, generator: torch.Generator, tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).double()
    points = actgp.InducingPoints(torch.randn(5, 3, generator=generator))
    around = actgp.GPLayer(actgp.ArcCosine(3), points, 2, module if prior_mean == "module" else "carried").double()
    plain = actgp.GPLayer(actgp.ArcCosine(3), copy.deepcopy(points), 2).double()
    with torch.no_grad():
        plain.q.raw_mean.normal_(generator=generator)
        around.q.load_state_dict(plain.q.state_dict())
    X = torch.randn(6, 3, dtype=torch.float64, generator=generator)
    h = X if prior_mean == "module" else torch.cat([X, module(X)], dim=1)
    assert around.input_dim == h.shape[1]
    mean, variance = around(h)
    torch.testing.assert_close(mean, plain(X).mean + module(X))
    torch.testing.assert_close(variance, plain(X).variance)
    torch.testing.assert_close(around.whiten(h), plain.whiten(X))
    torch.testing.assert_close(around.unexplained(h), plain.unexplained(X))
    torch.testing.assert_close(around.joint(h).mean.T, mean)
    torch.testing.assert_close(around.joint(h).covariance_matrix, plain.joint(X).covariance_matrix)
    model = actgp.DeepGP([around], GaussianLikelihood()).double()
    torch.testing.assert_close(model.mean(h), mean)
    torch.testing.assert_close(model.network()(h), mean)
    drawn, bare = (
        actgp.DeepGP([layer], GaussianLikelihood()).sample_functions(1, generator=torch.Generator().manual_seed(3))[0]
        for layer in (around, plain)
    )
    torch.testing.assert_close(drawn(h), bare(X) + module(X))
    if prior_mean == "module":
        with pytest.raises(TypeError, match="to be saved"):
            model.save(tmp_path / "model")


def test_a_prior_mean_of_another_shape_is_refused() -> None:
    layer = actgp.GPLayer(actgp.ArcCosine(3), actgp.InducingPoints(torch.randn(5, 3)), 2, torch.nn.Linear(3, 1))
    with pytest.raises(ValueError, match=r"a prior mean must give \[4, 2\], got \[4, 1\]; wrap it in a module"):
        layer(torch.zeros(4, 3))
