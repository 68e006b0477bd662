"""Natural gradients, against what they are by definition and where they must lead."""

import pytest
import torch

import actgp
from actgp.layers import WhitenedGaussian
from actgp.training import NaturalGradient
from actgp.training import natural as natural_module


def distribution(M: int = 3, P: int = 2) -> WhitenedGaussian:
    g = torch.Generator().manual_seed(0)
    q = WhitenedGaussian(M, P).double()
    S = torch.randn(P, M, M, dtype=torch.float64, generator=g).tril(-1) * 0.3 + 0.7 * torch.eye(M, dtype=torch.float64)
    q.assign(torch.randn(M, P, dtype=torch.float64, generator=g), S)
    return q


def test_a_short_step_goes_along_the_inverse_fisher_metric_times_the_gradient() -> None:
    # The Fisher metric is the Hessian of KL(q ‖ q') in q' at q' = q.
    q = distribution(P=1)
    M = 3
    rows, columns = torch.tril_indices(M, M)

    def unpack(theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        S = torch.zeros(M, M, dtype=torch.float64).index_put((rows, columns), theta[M:])
        return theta[:M], S

    theta = torch.cat([q.mean.detach()[:, 0], q.scale_tril.detach()[0][rows, columns]])
    mean, S = unpack(theta)
    fixed = torch.distributions.MultivariateNormal(mean, scale_tril=S)

    def divergence(theta: torch.Tensor) -> torch.Tensor:
        mean, S = unpack(theta)
        other = torch.distributions.MultivariateNormal(mean, scale_tril=S, validate_args=False)
        return torch.distributions.kl_divergence(fixed, other)

    fisher = torch.autograd.functional.hessian(divergence, theta)
    target = torch.linspace(-1, 1, M * M, dtype=torch.float64).reshape(M, M)

    def loss(mean: torch.Tensor, S: torch.Tensor) -> torch.Tensor:
        return (mean - 1).pow(4).sum() + ((S @ S.mT - target) ** 2).sum()

    gradient = torch.autograd.functional.jacobian(lambda theta: loss(*unpack(theta)), theta)
    expected = theta - 1e-6 * torch.linalg.solve(fisher, gradient)
    loss(q.mean[:, 0], q.scale_tril[0]).backward()
    NaturalGradient([q], lr=1e-6).step()
    moved = torch.cat([q.mean.detach()[:, 0], q.scale_tril.detach()[0][rows, columns]])
    torch.testing.assert_close((moved - theta) / 1e-6, (expected - theta) / 1e-6, rtol=1e-4, atol=1e-4)


def test_a_conjugate_model_is_led_to_its_exact_posterior() -> None:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(50, 2, dtype=torch.float64, generator=g)
    y = torch.sin(X[:, 0])
    sgpr = actgp.SGPR(X, y, actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 8, generator=g))
    sgpr.likelihood.noise = 0.1
    svgp = actgp.SVGP(sgpr.kernel, sgpr.features, sgpr.likelihood).double()
    optimiser = NaturalGradient([svgp.layer.q], lr=0.5)
    for _ in range(200):
        optimiser.zero_grad()
        (-svgp.elbo(X, y, 50)).backward()
        optimiser.step()
    assert svgp.elbo(X, y, 50).item() == pytest.approx(sgpr.elbo().item(), abs=1e-6)
    posterior = sgpr.posterior()
    torch.testing.assert_close(svgp.layer.q.mean, posterior.mean, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(svgp.layer.q.scale_tril[0], posterior.scale_tril, rtol=1e-3, atol=1e-3)


def test_the_kl_alone_leads_to_the_prior() -> None:
    q = distribution()
    optimiser = NaturalGradient([q], lr=0.3)
    for _ in range(100):
        optimiser.zero_grad()
        q.kl().backward()
        optimiser.step()
    torch.testing.assert_close(q.mean, torch.zeros_like(q.mean), atol=1e-6, rtol=0)
    torch.testing.assert_close(q.scale_tril, torch.eye(3, dtype=torch.float64).expand(2, 3, 3), atol=1e-6, rtol=0)


def test_a_huge_gradient_moves_no_farther_than_the_largest_step() -> None:
    q = distribution()
    before, S = q.mean.detach().clone(), q.scale_tril.detach().clone()
    (1e12 * (q.mean.sum() + q.scale_tril.sum())).backward()
    NaturalGradient([q], lr=1.0).step()
    a = torch.linalg.solve_triangular(S, (q.mean - before).T.unsqueeze(-1), upper=False)
    assert 0 < a.norm() <= natural_module.LARGEST_STEP + 1e-9
    assert (q.scale_tril.diagonal(dim1=-2, dim2=-1) > 0).all()
    assert torch.equal(q.scale_tril, q.scale_tril.tril())


def test_layers_without_a_gradient_stay() -> None:
    q = distribution()
    before = q.mean.detach().clone()
    NaturalGradient([q], lr=1.0).step()
    assert torch.equal(q.mean, before)


def test_closures_are_refused() -> None:
    with pytest.raises(ValueError, match="a closure is not evaluated here, got one; compute the gradients before"):
        NaturalGradient([distribution()], lr=1.0).step(lambda: 0.0)
