"""The inverse of a Cholesky factor and its own gradient, against what torch's operations give."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.distributions import MultivariateNormal

from actgp.linalg import InverseCholesky, LogDensity, posterior_scale, times_few


def covariance(generator: torch.Generator, M: int = 5) -> torch.Tensor:
    B = torch.randn(M, M, dtype=torch.float64, generator=generator)
    return B @ B.T + torch.eye(M, dtype=torch.float64)


def inverse_cholesky(K: torch.Tensor) -> torch.Tensor:
    """R = L⁻¹, L Lᵀ = K + jitter · I."""
    return InverseCholesky.apply(torch.float64, K)[0]


def test_the_inverse_factor_whitens(generator: torch.Generator) -> None:
    K = covariance(generator)
    R = inverse_cholesky(K)
    assert torch.equal(R, R.tril())
    torch.testing.assert_close(R @ K @ R.T, torch.eye(5, dtype=torch.float64), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("size", [5, 64, 150])
@pytest.mark.parametrize("rank", [3, 200])  # singular but for the jitter, and well conditioned
def test_those_of_a_stack_are_those_of_each(generator: torch.Generator, size: int, rank: int) -> None:
    B = torch.randn(2, size, rank, dtype=torch.float64, generator=generator)
    K = B @ B.mT
    stacked = inverse_cholesky(K)
    jitter = 1e-10 * K.diagonal(dim1=-2, dim2=-1).mean(-1)
    for matrix, R, added in zip(K, stacked, jitter, strict=True):
        eye = torch.eye(size, dtype=torch.float64)
        assert torch.equal(R, R.tril())
        error = (R @ (matrix + added * eye) @ R.T - eye).abs().max().item()
        alone = inverse_cholesky(matrix)
        assert error < 10 * (alone @ (matrix + added * eye) @ alone.T - eye).abs().max().item() + 1e-13


def test_a_stack_is_mended_where_one_of_it_needs_more_jitter(generator: torch.Generator) -> None:
    sound, flawed, below = covariance(generator, 70), torch.ones(70, 70).double(), torch.eye(70).double()
    flawed.diagonal().sub_(1e-6)  # indefinite
    below[68, 69] = below[69, 68] = 1 + 1e-6  # in the last columns alone
    for other in (flawed, below):
        stacked = inverse_cholesky(torch.stack([sound, other]))
        for matrix, R in zip((sound, other), stacked, strict=True):
            torch.testing.assert_close(R, inverse_cholesky(matrix))


@pytest.mark.parametrize("columns", [1, 2, 15, 16])
def test_products_with_few_columns(generator: torch.Generator, columns: int) -> None:
    A = torch.randn(2, 7, 5, dtype=torch.float64, generator=generator)
    B = torch.randn(2, 5, columns, dtype=torch.float64, generator=generator)
    torch.testing.assert_close(times_few(A, B), A @ B)


def test_its_gradient_is_that_of_cholesky_and_solve(generator: torch.Generator) -> None:
    K = covariance(generator).requires_grad_()
    weights = torch.randn(5, 5, dtype=torch.float64, generator=generator)
    (ours,) = torch.autograd.grad((weights * inverse_cholesky(K)).sum(), K)
    R = torch.linalg.solve_triangular(torch.linalg.cholesky(K), torch.eye(5, dtype=torch.float64), upper=False)
    (theirs,) = torch.autograd.grad((weights * R).sum(), K)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)  # the jitter is ours alone


def test_it_can_be_differentiated_twice(generator: torch.Generator) -> None:
    B = torch.randn(4, 4, dtype=torch.float64, generator=generator).requires_grad_()
    eye = torch.eye(4, dtype=torch.float64)

    def factor(B: torch.Tensor) -> torch.Tensor:
        return inverse_cholesky(B @ B.T + eye)

    assert gradcheck(factor, (B,))
    assert gradgradcheck(factor, (B,))


def test_a_posterior_survives_round_off_that_hides_the_prior() -> None:
    v = torch.randn(20, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    H = 1e20 * v @ v.T
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(H + torch.eye(20))
    S = posterior_scale(H)
    assert torch.isfinite(S).all()
    assert (S.diagonal() > 0).all()
    assert torch.equal(S, S.tril())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_information_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="information of the data must be finite.*standardise"):
        posterior_scale(torch.full((3, 3), value, dtype=torch.float64))


def test_the_log_density_is_that_of_a_normal_distribution_and_so_is_its_slope(generator: torch.Generator) -> None:
    root = torch.randn(2, 6, 6, dtype=torch.float64, generator=generator, requires_grad=True)
    r = torch.randn(2, 6, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    K = root @ root.mT + torch.eye(6)
    each = MultivariateNormal(torch.zeros(6, dtype=torch.float64), K.unsqueeze(1)).log_prob(r.mT)  # [2, 3]
    torch.testing.assert_close(LogDensity.apply(r, K), each.sum(-1))
    assert gradcheck(lambda r, root: LogDensity.apply(r, root @ root.mT + torch.eye(6)), (r, root))
