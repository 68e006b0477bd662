"""Marginals and scales with gradients derived by hand, against what torch's own operations give."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from actgp.layers.conditional import conditional_marginals
from actgp.layers.whitened import ScalesAndKL


def parts(num_outputs: int, blocks: tuple[int, ...], N: int = 4, M: int = 3) -> tuple[torch.Tensor, ...]:
    g = torch.Generator().manual_seed(num_outputs)
    A = torch.randn(N, M, dtype=torch.float64, generator=g)
    prior = A.square().sum(-1) + torch.tensor([0.5, 0.2, -0.3, 1.0], dtype=torch.float64)  # one is all explained
    mean = torch.randn(M, num_outputs, dtype=torch.float64, generator=g)
    scales = [torch.randn(size, num_outputs, size, dtype=torch.float64, generator=g) for size in blocks]
    return tuple(x.requires_grad_() for x in (A, prior, mean, *scales))


@pytest.mark.parametrize("blocks", [(3,), (1, 2)])
@pytest.mark.parametrize("num_outputs", [1, 2])
@pytest.mark.parametrize("gradients", [True, False])
def test_marginals_are_those_of_the_formula(num_outputs: int, blocks: tuple[int, ...], gradients: bool) -> None:
    A, prior, m, *scales = parts(num_outputs, blocks)
    with torch.set_grad_enabled(gradients):
        mean, variance = conditional_marginals(A, prior, m, *scales)
    for p in range(num_outputs):
        S = torch.block_diag(*(block[:, p] for block in scales))
        expected = (prior - A.square().sum(-1)).clamp_min(0) + (A @ S @ S.T @ A.T).diagonal()
        torch.testing.assert_close(variance[:, p], expected)
        torch.testing.assert_close(mean[:, p], A @ m[:, p])


@pytest.mark.parametrize("blocks", [(3,), (1, 2)])
@pytest.mark.parametrize("num_outputs", [1, 2])
def test_their_gradients_of_first_and_second_order(num_outputs: int, blocks: tuple[int, ...]) -> None:
    assert gradcheck(conditional_marginals, parts(num_outputs, blocks))
    assert gradgradcheck(conditional_marginals, parts(num_outputs, blocks))


@pytest.mark.parametrize("blocks", [(3,), (1, 2)])
def test_scales_are_lower_triangles_with_a_positive_diagonal(blocks: tuple[int, ...]) -> None:
    raw = torch.randn(2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    mean = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    *scales, _ = ScalesAndKL.apply(mean, raw, blocks)
    inside = torch.block_diag(*(torch.ones(size, size, dtype=torch.float64) for size in blocks))
    expected = (raw * inside).tril(-1) + torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1).exp())
    for p in range(2):
        torch.testing.assert_close(torch.block_diag(*(S[:, p] for S in scales)), expected[p])
    assert gradcheck(lambda m, r: ScalesAndKL.apply(m, r, blocks), (mean, raw))
    assert gradgradcheck(lambda m, r: ScalesAndKL.apply(m, r, blocks), (mean, raw))
