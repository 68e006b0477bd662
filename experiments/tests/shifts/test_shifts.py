"""What all shifts promise."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from actgp_experiments import shifts
from actgp_experiments.shifts import SHIFTS, shift

INTENSE = ("gaussian_noise", "motion_blur", "brightness", "pixelate", "shrink", "translate", "contrast", "salt")
EVERY = [(name, level) for name in SHIFTS for level in SHIFTS[name].levels]


def pictures(dtype: torch.dtype = torch.float32, size: tuple[int, ...] = (4, 3, 20, 24)) -> Tensor:
    return torch.rand(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


def test_the_table() -> None:
    assert {name: SHIFTS[name].levels for name in SHIFTS} == {
        "rotation": (0, 15, 30, 45, 60, 75, 90, 105, 120, 135, 150, 165, 180),
        **dict.fromkeys(INTENSE, (0, 1, 2, 3, 4, 5)),
    }
    images = pictures()
    assert torch.equal(shift(images, "rotation", 30, seed=1), shifts.rotate(images, 30))
    assert torch.equal(shift(images, "gaussian_noise", 3, seed=1), shifts.gaussian_noise(images, 3, seed=1))
    assert torch.equal(shift(images, "motion_blur", 3, seed=1), shifts.motion_blur(images, 3, seed=1))
    assert torch.equal(shift(images, "brightness", 3, seed=1), shifts.brightness(images, 3))
    assert torch.equal(shift(images, "pixelate", 3, seed=1), shifts.pixelate(images, 3))
    assert torch.equal(shift(images, "shrink", 3, seed=1), shifts.shrink(images, 3))
    assert torch.equal(shift(images, "translate", 3, seed=1), shifts.translate(images, 3, seed=1))
    assert torch.equal(shift(images, "contrast", 3, seed=1), shifts.contrast(images, 3))
    assert torch.equal(shift(images, "salt", 3, seed=1), shifts.salt(images, 3, seed=1))


@pytest.mark.parametrize("name", SHIFTS)
def test_level_0_changes_nothing(name: str, dtype: torch.dtype) -> None:
    images = pictures(dtype)
    found = shift(images, name, 0, seed=0)
    assert torch.equal(found, images)
    assert found.data_ptr() != images.data_ptr()


@pytest.mark.parametrize(("name", "level"), EVERY)
def test_images_come_back(name: str, level: int, dtype: torch.dtype) -> None:
    images = pictures(dtype).round(decimals=1)  # some 0, some 1
    before = images.clone()
    found = shift(images, name, level, seed=0)
    assert (found.shape, found.dtype, found.device) == (images.shape, images.dtype, images.device)
    assert found.min() >= 0
    assert found.max() <= 1
    assert torch.equal(images, before)
    torch.testing.assert_close(
        found, shift(images.contiguous(memory_format=torch.channels_last), name, level, seed=0), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(("name", "level"), EVERY)
def test_both_precisions_agree(name: str, level: int) -> None:
    single, double = (shift(pictures(dtype), name, level, seed=0) for dtype in (torch.float32, torch.float64))
    torch.testing.assert_close(single.double(), double, rtol=0, atol=2e-5)


@pytest.mark.parametrize(("name", "level"), EVERY)
def test_an_image_does_not_depend_on_those_after_it(name: str, level: int) -> None:
    images = pictures(size=(5, 1, 7, 9))
    whole, part = shift(images, name, level, seed=3), shift(images[:2], name, level, seed=3)
    torch.testing.assert_close(whole[:2], part, rtol=0, atol=1e-6)
    others = torch.cat([images[:2], images[:2], images[:1]])
    torch.testing.assert_close(shift(others, name, level, seed=3)[:2], part, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", INTENSE)
def test_a_higher_intensity_changes_more(name: str, dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(0)
    images = torch.nn.functional.interpolate(
        0.8 * torch.rand(50, 3, 10, 10, generator=g, dtype=dtype), size=(32, 32), mode="bicubic"
    ).clamp(0, 1)
    changes = [(shift(images, name, level, seed=0) - images).square().mean().item() for level in range(6)]
    assert changes[0] == 0
    assert all(a < b for a, b in pairwise(changes))


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize(
    ("images", "error", "match"),
    [
        ([[0.0]], TypeError, "images must be a torch.Tensor, got list"),
        (torch.zeros(1, 1, 4, 4, dtype=torch.uint8), TypeError, "images must be float32 or float64, got torch.uint8"),
        (torch.zeros(3, 4, 4), ValueError, r"shape \[N, C, H, W\] .*, got \[3, 4, 4\]; for grey ones"),
        (torch.zeros(0, 1, 4, 4), ValueError, r"at least one pixel, got \[0, 1, 4, 4\]"),
        (torch.full((1, 1, 4, 4), math.nan), ValueError, "images must be finite, got 16 NaN"),
        (torch.full((1, 1, 4, 4), 255.0), ValueError, r"values in \[0, 1\], got 255 to 255; divide bytes by 255"),
        (torch.full((1, 1, 4, 4), -0.5), ValueError, "got -0.5 to -0.5; .* before they are standardised"),
    ],
)
def test_what_are_no_images_is_refused(name: str, images: Tensor, error: type[Exception], match: str) -> None:
    for level in SHIFTS[name].levels[:2]:
        with pytest.raises(error, match=match):
            shift(images, name, level, seed=0)


def test_names_levels_and_seeds_are_checked() -> None:
    images = pictures()
    with pytest.raises(ValueError, match=r"name must be one of \['rotation', .*'salt'\], got 'fog'"):
        shift(images, "fog", 1, seed=0)
    with pytest.raises(ValueError, match=r"level must be one of \[0, 15, .*180\], got 7"):
        shift(images, "rotation", 7, seed=0)
    with pytest.raises(ValueError, match=r"level must be one of \[0, 1, 2, 3, 4, 5\], got 6"):
        shift(images, "pixelate", 6, seed=0)
    for intensity, error, match in (
        (6, ValueError, r"intensity must be one of \[0, 1, 2, 3, 4, 5\], got 6"),
        (-1, ValueError, "intensity must be at least 0, got -1"),
        (2.5, TypeError, "intensity must be an integer, got 2.5"),
    ):
        for apply in (shifts.brightness, shifts.pixelate):
            with pytest.raises(error, match=match):
                apply(images, intensity)
        for apply in (shifts.gaussian_noise, shifts.motion_blur):
            with pytest.raises(error, match=match):
                apply(images, intensity, seed=0)
    for name in SHIFTS:
        with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
            shift(images, name, 0, seed=-1)
