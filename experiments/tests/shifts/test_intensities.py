"""Noise, blur, brightness and pixelation, by what defines them."""

import colorsys
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from actgp_experiments.shifts import brightness, gaussian_noise, motion_blur, pixelate

SIGMA = {1: 0.04, 2: 0.06, 3: 0.08, 4: 0.09, 5: 0.10}
WIDTH = {1: 1.0, 2: 1.5, 3: 2.0, 4: 2.25, 5: 2.5}
ADDED = {1: 0.05, 2: 0.10, 3: 0.15, 4: 0.20, 5: 0.30}
BLOCKS = {1: 30, 2: 28, 3: 27, 4: 24, 5: 20}  # of 32
LEVELS = pytest.mark.parametrize("intensity", range(1, 6))


@LEVELS
def test_noise_has_its_mean_and_size(intensity: int, dtype: torch.dtype) -> None:
    noise = gaussian_noise(torch.full((40, 3, 32, 32), 0.5, dtype=dtype), intensity, seed=0) - 0.5
    standard = (noise / SIGMA[intensity]).double()
    assert standard.mean().item() == pytest.approx(0, abs=0.01)
    assert standard.std().item() == pytest.approx(1, abs=0.01)
    assert standard.pow(4).mean().item() == pytest.approx(3, abs=0.1)
    for other in (standard.roll(1, 0), standard.roll(1, 1), standard.roll(1, 2), standard.roll(1, 3)):
        assert (standard * other).mean().item() == pytest.approx(0, abs=0.015)


def test_noise_is_clipped(dtype: torch.dtype) -> None:
    black = gaussian_noise(torch.zeros(40, 3, 32, 32, dtype=dtype), 5, seed=0)
    assert (black == 0).double().mean().item() == pytest.approx(0.5, abs=0.01)
    assert black.mean().item() == pytest.approx(0.1 / math.sqrt(2 * math.pi), rel=0.02)  # E max(0, z) = σ / √(2π)


def test_noise_is_the_seeds() -> None:
    images = torch.full((3, 1, 8, 8), 0.5)
    first = gaussian_noise(images, 1, seed=0)
    assert torch.equal(first, gaussian_noise(images, 1, seed=0))
    assert not torch.equal(first, gaussian_noise(images, 1, seed=1))
    strongest = gaussian_noise(images, 5, seed=0)
    torch.testing.assert_close((strongest - 0.5) / 0.10, (first - 0.5) / 0.04, rtol=1e-4, atol=1e-5)


def moments(images: Tensor) -> tuple[Tensor, Tensor]:
    """The centres [N, 2] and covariances [N, 2, 2] of images as densities."""
    H, W = images.shape[-2:]
    y, x = torch.meshgrid(*(torch.arange(n).double() - (n - 1) / 2 for n in (H, W)), indexing="ij")
    points = torch.stack([x, y], -1).reshape(-1, 2)  # [HW, 2]
    p = images.double().flatten(1)  # [N, HW]
    mean = p @ points
    return mean, torch.einsum("np,pi,pj->nij", p, points, points) - mean[:, :, None] * mean[:, None, :]


def point(N: int, dtype: torch.dtype = torch.float64) -> Tensor:
    images = torch.zeros(N, 1, 33, 33, dtype=dtype)
    images[..., 16, 16] = 1
    return images


@LEVELS
def test_blur_spreads_a_point_along_a_line(intensity: int) -> None:
    blurred = motion_blur(point(50), intensity, seed=0)
    torch.testing.assert_close(blurred.sum((1, 2, 3)), torch.ones(50, dtype=torch.float64))
    torch.testing.assert_close(blurred, blurred.flip(2, 3))
    mean, covariance = moments(blurred)
    torch.testing.assert_close(mean, torch.zeros_like(mean))
    across, along = torch.linalg.eigvalsh(covariance).unbind(-1)
    # Interpolation between pixels adds at most ¼ of a square pixel; weights end at three standard deviations.
    assert (across <= 0.25).all()
    assert (along >= 0.95 * WIDTH[intensity] ** 2).all()
    assert (along <= WIDTH[intensity] ** 2 + 0.25).all()


def test_blur_goes_in_all_directions() -> None:
    _, covariance = moments(motion_blur(point(600), 5, seed=0))
    direction = torch.linalg.eigh(covariance).eigenvectors[..., -1]  # [N, 2]
    angle = 2 * torch.atan2(direction[:, 1], direction[:, 0])  # of a line, not of an arrow
    for n in (1, 2):
        assert (n * angle).cos().mean().abs() < 0.1
        assert (n * angle).sin().mean().abs() < 0.1


@LEVELS
def test_blur_keeps_constants_up_to_the_edge_and_mass_within(
    intensity: int, dtype: torch.dtype, tolerance: dict[str, float], generator: torch.Generator
) -> None:
    constants = torch.rand(6, 3, 1, 1, generator=generator, dtype=dtype).expand(6, 3, 12, 17)
    torch.testing.assert_close(motion_blur(constants, intensity, seed=0), constants, **tolerance)
    images = torch.nn.functional.pad(torch.rand(6, 3, 8, 8, generator=generator, dtype=dtype), (10, 10, 10, 10))
    found = motion_blur(images, intensity, seed=0)
    torch.testing.assert_close(found.sum((2, 3)), images.sum((2, 3)), **tolerance)


def test_blur_is_the_seeds() -> None:
    images = point(4)
    assert torch.equal(motion_blur(images, 3, seed=0), motion_blur(images, 3, seed=0))
    assert not torch.equal(motion_blur(images, 3, seed=0), motion_blur(images, 3, seed=1))


@LEVELS
def test_brightness_of_grey(
    intensity: int, dtype: torch.dtype, tolerance: dict[str, float], generator: torch.Generator
) -> None:
    images = torch.rand(3, 1, 9, 9, generator=generator, dtype=dtype).round(decimals=1)
    expected = (images + ADDED[intensity]).clamp(max=1)
    torch.testing.assert_close(brightness(images, intensity), expected, **tolerance)
    torch.testing.assert_close(
        brightness(images.expand(3, 3, 9, 9), intensity), expected.expand(3, 3, 9, 9), **tolerance
    )


@LEVELS
def test_brightness_keeps_hue_and_saturation(intensity: int, generator: torch.Generator) -> None:
    image = torch.rand(1, 3, 5, 5, generator=generator, dtype=torch.float64)
    image[..., 0, 0] = 0
    found = brightness(image, intensity)
    for before, after in zip(image[0].flatten(1).T.tolist(), found[0].flatten(1).T.tolist(), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before)
        expected = colorsys.hsv_to_rgb(hue, saturation, min(value + ADDED[intensity], 1))
        assert after == pytest.approx(expected)


def test_brightness_of_what_is_almost_black(dtype: torch.dtype) -> None:
    images = torch.full((1, 3, 2, 2), torch.finfo(dtype).tiny, dtype=dtype)
    torch.testing.assert_close(brightness(images, 5), torch.full_like(images, 0.3))


@LEVELS
def test_pixels_are_blocks(intensity: int, dtype: torch.dtype, generator: torch.Generator) -> None:
    found = pixelate(torch.rand(2, 3, 32, 32, generator=generator, dtype=dtype), intensity)
    for axis in (2, 3):
        steps = (found.diff(dim=axis).abs() > 1e-5).any(5 - axis).any(1).any(0)  # between neighbouring rows or columns
        assert int(steps.sum()) == BLOCKS[intensity] - 1


@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 40), st.integers(0, 100))
def test_pixelating_is_a_projection_that_keeps_the_mean(intensity: int, H: int, W: int, seed: int) -> None:
    images = torch.from_numpy(np.random.default_rng(seed).random((2, 2, H, W)))
    found = pixelate(images, intensity)
    torch.testing.assert_close(pixelate(found, intensity), found)
    torch.testing.assert_close(found.mean((2, 3)), images.mean((2, 3)))
    # The nearest image that is constant on blocks: what is lost is orthogonal to what is left.
    torch.testing.assert_close(((images - found) * found).sum((2, 3)), torch.zeros(2, 2, dtype=torch.float64))
