"""Where the variance of predictions comes from, against the predictions themselves."""

import pytest
import torch
from gpytorch.likelihoods import BernoulliLikelihood, GaussianLikelihood

import actgp


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_posterior(model: actgp.DeepGP, scale: float) -> actgp.DeepGP:
    """Means drawn at random, posteriors narrow enough for first order to be exact."""
    g = generator(1)
    for layer in model.gp_layers:
        M, P = layer.q.mean.shape
        tril = torch.randn(P, M, M, generator=g, dtype=torch.float64).mul(0.1 * scale).tril(-1)
        mean = torch.randn(M, P, generator=g, dtype=torch.float64) / M
        layer.q.assign(mean, tril + scale * torch.eye(M, dtype=torch.float64))
        layer.kernel.variance = 1e-4
    model.likelihood.noise = 1e-6
    if isinstance(model.likelihood, actgp.ContaminatedGaussianLikelihood):
        model.likelihood.outlier_noise = 1e-4
    return model


@pytest.mark.parametrize("num_points", [0, 15])
def test_parts_add_up_to_the_variance_of_predictions(num_points: int) -> None:
    model = actgp.deep_gp(
        2, num_layers=3, num_inducing=12 + num_points, layers=actgp.Layers(num_points=num_points), generator=generator()
    ).double()
    small_posterior(model, 0.3)
    X = torch.randn(60, 2, generator=generator(2), dtype=torch.float64)
    shares = actgp.diagnose(model, X).shares
    parts = [part for layer in shares.layers for part in (layer.unexplained, layer.posterior, layer.orthogonal)]
    assert sum(parts) + shares.noise == pytest.approx(1.0)
    assert all(part >= 0 for part in parts)
    assert all((layer.orthogonal > 0) == (num_points > 0) for layer in shares.layers)
    whole = (model.likelihood.noise + 0.01 * model.likelihood.outlier_noise).item() / shares.noise
    assert whole == pytest.approx(model.predict(X, num_samples=4_096).variance.mean().item(), rel=0.03)


def test_points_take_over_what_was_unexplained() -> None:
    X = torch.randn(80, 6, generator=generator(3))
    few, many = (
        actgp.diagnose(
            actgp.deep_gp(
                6, num_layers=1, num_inducing=8 + K, layers=actgp.Layers(num_points=K), generator=generator()
            ),
            X,
        )
        for K in (1, 60)
    )
    assert many.shares.unexplained < few.shares.unexplained
    assert many.shares.layers[0].orthogonal > few.shares.layers[0].orthogonal
    assert any("num_points" in text for text in few.advice)
    assert "orthogonal" in str(few)


def test_the_shares_of_sgpr_are_those_of_its_predictions() -> None:
    X = torch.randn(50, 2, generator=generator(4), dtype=torch.float64)
    decoupled = actgp.DecoupledFeatures(
        actgp.ActivatedFeatures(2, 10, generator=generator()), actgp.InducingPoints(X[:5])
    )
    sgpr = actgp.SGPR(X, X[:, 0].sin(), actgp.ArcCosine(2), decoupled, GaussianLikelihood())
    shares = actgp.diagnose(sgpr, X).shares
    prediction = sgpr.predict(X)
    assert shares.noise == pytest.approx((prediction.aleatoric / prediction.variance.mean()).mean().item())
    assert shares.unexplained + shares.layers[0].posterior + shares.noise == pytest.approx(1.0)


def test_without_gaussian_noise_the_variance_is_that_of_the_functions() -> None:
    model = actgp.deep_gp(2, num_layers=2, num_inducing=6, likelihood=BernoulliLikelihood(), generator=generator())
    shares = actgp.diagnose(model, torch.randn(9, 2, generator=generator())).shares
    assert shares.noise == 0.0
    assert shares.unexplained < 1.0


def test_every_output_counts() -> None:
    model = actgp.deep_gp(2, num_outputs=3, num_layers=1, num_inducing=6, generator=generator())
    shares = actgp.diagnose(model, torch.randn(9, 2, generator=generator())).shares
    alone = actgp.deep_gp(2, num_outputs=1, num_layers=1, num_inducing=6, generator=generator())
    assert shares.noise == pytest.approx(actgp.diagnose(alone, torch.randn(9, 2, generator=generator())).shares.noise)
