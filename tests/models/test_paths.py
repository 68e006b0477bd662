"""Sampled paths and their gradients."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from actgp.models.paths import sampled


@pytest.mark.parametrize("num_paths", [1, 3])
@pytest.mark.parametrize("begin_alike", [True, False])
@pytest.mark.parametrize("same_noise", [True, False])
def test_paths_are_means_and_scaled_noise(num_paths: int, begin_alike: bool, same_noise: bool) -> None:
    g = torch.Generator().manual_seed(0)
    rows = 4 * (1 if begin_alike else num_paths)
    mean = torch.randn(rows, 2, dtype=torch.float64, generator=g).requires_grad_()
    variance = torch.rand(rows, 2, dtype=torch.float64, generator=g).add_(0.1)
    variance[1, 0] = -0.5  # round-off, exaggerated: it has no gradient
    variance.requires_grad_()
    noise = torch.randn(num_paths, 1 if same_noise else 4, 2, dtype=torch.float64, generator=g)
    h = sampled(mean, variance, noise, 4)
    for s in range(num_paths):
        own = slice(0, 4) if begin_alike else slice(4 * s, 4 * s + 4)
        sd = variance[own].clamp_min(torch.finfo(torch.float64).eps).sqrt()
        torch.testing.assert_close(h[4 * s : 4 * s + 4], mean[own] + sd * noise[s])
    assert gradcheck(lambda m, v: sampled(m, v, noise, 4), (mean, variance))
    assert gradgradcheck(lambda m, v: sampled(m, v, noise, 4), (mean, variance))
