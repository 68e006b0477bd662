"""The regression and the leverages of a closed form, against fitting anew without each row."""

import pytest
import torch
from torch import Tensor

from actgp.training import leverage
from actgp.training.regression import Given, leave_one_out, posterior, regress

V, NOISE = torch.tensor(0.7, dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64)


def parts(generator: torch.Generator) -> tuple[Given, Given]:
    """Two kinds of rows, of five variables and two outputs."""

    def part(N: int) -> Given:
        A, r = (torch.randn(N, size, dtype=torch.float64, generator=generator) for size in (5, 2))
        return Given(A, r, torch.rand(N, dtype=torch.float64, generator=generator) + 0.5)

    return part(9), part(6)


def gp(given: Given, at: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of a GP with covariance v A Aᵀ, its noise σ² / W."""
    K = V * given.A @ given.A.T + torch.diag(NOISE / given.weights)
    cross = V * at @ given.A.T
    return cross @ torch.linalg.solve(K, given.r), V * at @ at.T - cross @ torch.linalg.solve(K, cross.T)


def joined(*parts: Given) -> Given:
    return Given(*(torch.cat(values) for values in zip(*parts, strict=True)))


def test_the_posterior_is_that_of_a_gp(generator: torch.Generator) -> None:
    first, second = parts(generator)
    m, S = posterior(regress([first, second]), V, NOISE)
    at = torch.randn(4, 5, dtype=torch.float64, generator=generator)
    mean, covariance = gp(joined(first, second), at)
    torch.testing.assert_close(V.sqrt() * at @ m, mean)
    torch.testing.assert_close(V * (at @ S) @ (at @ S).T, covariance)
    assert torch.equal(S, S.tril())


def test_leaving_a_row_out_is_fitting_anew_without_it(generator: torch.Generator) -> None:
    row, other = parts(generator)
    regression = regress([row, other])
    mean, variance = leave_one_out(regression, row, row.A @ regression.Q, V, NOISE)
    for i in range(len(row.A)):
        kept = torch.arange(len(row.A)) != i
        expected, covariance = gp(joined(Given(*(values[kept] for values in row)), other), row.A[i : i + 1])
        torch.testing.assert_close(mean[i], expected[0])
        torch.testing.assert_close(variance[i], covariance[0, 0])


def test_rows_without_weight_are_predicted_by_the_others(generator: torch.Generator) -> None:
    row, other = parts(generator)
    new = row._replace(weights=torch.zeros_like(row.weights))
    regression = regress([new, other])
    mean, variance = leave_one_out(regression, new, new.A @ regression.Q, V, NOISE)
    expected, covariance = gp(other, row.A)
    torch.testing.assert_close(mean, expected)
    torch.testing.assert_close(variance, covariance.diagonal())


def test_without_any_weight_q_is_the_prior(generator: torch.Generator) -> None:
    row, _ = parts(generator)
    m, S = posterior(regress([row._replace(weights=torch.zeros_like(row.weights))]), V, NOISE)
    assert not m.any()
    torch.testing.assert_close(S, torch.eye(5, dtype=torch.float64))


def ridge_data(generator: torch.Generator, N: int = 14) -> tuple[Tensor, Tensor]:
    z = torch.randn(N, 4, dtype=torch.float64, generator=generator) + 3.0
    y = z @ torch.randn(4, 2, dtype=torch.float64, generator=generator)
    return z, y + 5.0 + 0.5 * torch.randn(N, 2, dtype=torch.float64, generator=generator)


def test_leverages_are_those_of_a_ridge_regression(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = ridge_data(generator)
    monkeypatch.setattr(leverage, "PENALTIES", torch.tensor([0.3], dtype=torch.float64))
    penalty = 0.3 * torch.linalg.eigvalsh((z - z.mean(0)).T @ (z - z.mean(0))).mean()

    def predicted(rows: Tensor) -> Tensor:
        """At all rows, by a ridge regression on some, with a constant that costs nothing."""
        Phi = torch.cat([z, torch.ones_like(z[:, :1])], dim=1)
        cost = penalty * torch.diag(torch.tensor([1.0, 1, 1, 1, 0], dtype=torch.float64))
        return Phi @ torch.linalg.solve(Phi[rows].T @ Phi[rows] + cost, Phi[rows].T @ y[rows])

    r = y - predicted(torch.arange(len(z)))
    left_out = leverage.without_row(r, leverage.ridge_leverages(z, y))
    for i in range(len(z)):
        torch.testing.assert_close(left_out[i], (y - predicted(torch.arange(len(z)) != i))[i])


def test_the_penalty_has_the_largest_evidence(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = ridge_data(generator)
    chosen = leverage.ridge_leverages(z, y)
    Phi, centred = z - z.mean(0), y - y.mean(0)
    mean_eigenvalue = torch.linalg.eigvalsh(Phi.T @ Phi).mean()
    evidence = []
    for relative in leverage.PENALTIES:
        K = torch.eye(len(z), dtype=torch.float64) + Phi @ Phi.T / (relative * mean_eigenvalue)
        noise = (centred * torch.linalg.solve(K, centred)).mean(0)
        normals = [torch.distributions.MultivariateNormal(torch.zeros(len(z)).double(), a * K) for a in noise]
        evidence.append(sum(normal.log_prob(t) for normal, t in zip(normals, centred.T, strict=True)))
    best = int(torch.stack(evidence).argmax())
    assert 0 < best < len(evidence) - 1
    monkeypatch.setattr(leverage, "PENALTIES", leverage.PENALTIES[best : best + 1])
    torch.testing.assert_close(leverage.ridge_leverages(z, y), chosen)


def test_leverages_count_parameters(generator: torch.Generator) -> None:
    z, y = ridge_data(generator, 200)
    assert leverage.ridge_leverages(z, y).sum().item() == pytest.approx(5, rel=0.02)
    noise = torch.randn(200, 2, dtype=torch.float64, generator=generator)
    assert leverage.ridge_leverages(z, noise).sum().item() < 4
    assert leverage.ridge_leverages(z[:3], y[:3]).max() <= 1 + 1e-9


def test_no_row_is_enlarged_more_than_twentyfold() -> None:
    r = torch.ones(2, 1, dtype=torch.float64)
    torch.testing.assert_close(leverage.without_row(r, torch.tensor([0.5, 1.0]).double())[:, 0], r.new_tensor([2, 20]))
