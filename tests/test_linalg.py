"""The inverse of a Cholesky factor and its own gradient, against what torch's operations give."""

import torch
from torch.autograd import gradcheck, gradgradcheck

from actgp.linalg import inverse_cholesky


def covariance(generator: torch.Generator, M: int = 5) -> torch.Tensor:
    B = torch.randn(M, M, dtype=torch.float64, generator=generator)
    return B @ B.T + torch.eye(M, dtype=torch.float64)


def test_the_inverse_factor_whitens(generator: torch.Generator) -> None:
    K = covariance(generator)
    R = inverse_cholesky(K)
    assert torch.equal(R, R.tril())
    torch.testing.assert_close(R @ K @ R.T, torch.eye(5, dtype=torch.float64), rtol=1e-8, atol=1e-8)


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
