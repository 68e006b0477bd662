"""Sampled paths and their gradients."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from actgp.models.deep import sampled


@pytest.mark.parametrize("num_paths", [1, 3])
@pytest.mark.parametrize("begin_alike", [True, False])
@pytest.mark.parametrize("same_noise", [True, False])
def test_paths_are_means_and_scaled_noise(num_paths: int, begin_alike: bool, same_noise: bool) -> None:
    g = torch.Generator().manual_seed(0)
    begun = 1 if begin_alike else num_paths
    mean = torch.randn(begun, 4, 2, dtype=torch.float64, generator=g).requires_grad_()
    variance = torch.rand(begun, 4, 2, dtype=torch.float64, generator=g).add_(0.1)
    variance[0, 1, 0] = -0.5  # round-off, exaggerated: it has no gradient
    variance.requires_grad_()
    noise = torch.randn(num_paths, 1 if same_noise else 4, 2, dtype=torch.float64, generator=g)
    h = sampled(mean, variance, noise)
    for s in range(num_paths):
        own = 0 if begin_alike else s
        sd = variance[own].clamp_min(torch.finfo(torch.float64).eps).sqrt()
        torch.testing.assert_close(h[s], mean[own] + sd * noise[s])
    assert gradcheck(lambda m, v: sampled(m, v, noise), (mean, variance))
    assert gradgradcheck(lambda m, v: sampled(m, v, noise), (mean, variance))
