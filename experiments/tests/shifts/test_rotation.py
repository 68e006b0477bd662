"""Rotation, against quarter turns and bumps whose place is known."""

import math

import pytest
import torch
from torch import Tensor

from actgp_experiments.shifts import rotate


def bump(x: float, y: float, dtype: torch.dtype, H: int = 40, W: int = 60) -> Tensor:
    """A smooth bump x pixels to the right of the centre and y above it."""
    across = torch.arange(W, dtype=dtype) - (W - 1) / 2
    up = (H - 1) / 2 - torch.arange(H, dtype=dtype)
    return torch.exp(-((across - x).square() + (up[:, None] - y).square()) / 32)[None, None]


@pytest.mark.parametrize("quarters", [-1, 1, 2, 3, 4, 5])
def test_quarter_turns(
    quarters: int, dtype: torch.dtype, tolerance: dict[str, float], generator: torch.Generator
) -> None:
    images = torch.rand(5, 3, 28, 28, generator=generator, dtype=dtype)
    torch.testing.assert_close(rotate(images, 90 * quarters), torch.rot90(images, quarters, (2, 3)), **tolerance)


def test_half_a_turn_of_an_oblong_image(
    dtype: torch.dtype, tolerance: dict[str, float], generator: torch.Generator
) -> None:
    images = torch.rand(2, 1, 11, 16, generator=generator, dtype=dtype)
    torch.testing.assert_close(rotate(images, 180), images.flip(2, 3), **tolerance)


@pytest.mark.parametrize("degrees", [-75.0, 15, 30, 100, 170])
def test_a_bump_goes_round_counter_clockwise(degrees: float, dtype: torch.dtype) -> None:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    found = rotate(bump(9.0, 3.0, dtype), degrees)
    torch.testing.assert_close(found, bump(9 * c - 3 * s, 9 * s + 3 * c, dtype), rtol=0, atol=0.02)


@pytest.mark.parametrize("degrees", [15, 45, 120])
def test_there_and_back(degrees: float, dtype: torch.dtype) -> None:
    image = bump(4.0, -5.0, dtype)
    torch.testing.assert_close(rotate(rotate(image, degrees), -degrees), image, rtol=0, atol=0.03)


def test_outside_is_zero(dtype: torch.dtype) -> None:
    found = rotate(torch.ones(1, 1, 21, 21, dtype=dtype), 45)[0, 0]
    assert found[[0, 0, -1, -1], [0, -1, 0, -1]].eq(0).all()
    torch.testing.assert_close(found[5:16, 5:16], torch.ones(11, 11, dtype=dtype))


def test_whole_turns(generator: torch.Generator) -> None:
    images = torch.rand(2, 1, 9, 9, generator=generator)
    assert torch.equal(rotate(images, 360), images)
    assert torch.equal(rotate(images, -720.0), images)
    torch.testing.assert_close(rotate(images, 370), rotate(images, 10))


@pytest.mark.parametrize("degrees", [math.nan, math.inf, "90", None])
def test_what_is_no_angle_is_refused(degrees: float) -> None:
    with pytest.raises(ValueError, match=r"degrees must be a finite number, got .*; pass e.g. 45.0"):
        rotate(torch.zeros(1, 1, 4, 4), degrees)
