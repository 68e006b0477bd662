"""The shifts by which methods are chosen, by what defines them."""

import pytest
import torch

from actgp_experiments.shifts import contrast, salt, shrink, translate

LEVELS = pytest.mark.parametrize("intensity", range(1, 6))
FACTOR = {1: 0.9, 2: 0.8, 3: 0.7, 4: 0.6, 5: 0.5}
PIXELS = {1: 2, 2: 4, 3: 6, 4: 8, 5: 10}
KEPT = {1: 0.75, 2: 0.5, 3: 0.4, 4: 0.3, 5: 0.15}
REPLACED = {1: 0.02, 2: 0.05, 3: 0.1, 4: 0.2, 5: 0.3}


@LEVELS
def test_a_bump_shrinks_towards_the_centre(intensity: int, dtype: torch.dtype) -> None:
    def bump(scale: float) -> torch.Tensor:
        axis = torch.arange(64, dtype=dtype) - 31.5
        return torch.exp(-((axis - 12 * scale).square() + (axis[:, None] + 8 * scale).square()) / (72 * scale**2))

    found = shrink(bump(1.0)[None, None], intensity)[0, 0]
    torch.testing.assert_close(found, bump(FACTOR[intensity]), rtol=0, atol=0.02)


def test_nothing_is_outside_a_smaller_image() -> None:
    found = shrink(torch.ones(1, 3, 20, 20), 5)
    assert found.sum().item() == pytest.approx(3 * 100, rel=1e-5)
    assert torch.equal(found[..., 6:14, 6:14], torch.ones(1, 3, 8, 8))


@LEVELS
def test_images_move_in_four_directions_at_random(intensity: int, dtype: torch.dtype) -> None:
    images = torch.zeros(400, 1, 25, 31, dtype=dtype)
    images[..., 12, 15] = 1
    places = translate(images, intensity, seed=0)[:, 0].nonzero()[:, 1:] - torch.tensor([12, 15])  # [N, 2]
    assert (places.abs() == PIXELS[intensity]).all()
    _, counts = places.unique(dim=0, return_counts=True)
    assert len(counts) == 4
    assert counts.min() > 70  # of 400
    assert torch.equal(
        places.sign(), translate(images, 1, seed=0)[:, 0].nonzero()[:, 1:].sub(torch.tensor([12, 15])).sign()
    )


def test_what_moves_out_is_gone() -> None:
    images = torch.rand(8, 2, 12, 12, generator=torch.Generator().manual_seed(0))
    for image, moved in zip(images, translate(images, 5, seed=3), strict=True):
        assert moved.count_nonzero() == 2 * 2 * 2
        corners = [image[:, y, x] for y in (slice(0, 2), slice(10, 12)) for x in (slice(0, 2), slice(10, 12))]
        assert any(torch.equal(moved[moved > 0], corner.flatten()) for corner in corners)


@LEVELS
def test_contrast_keeps_means_and_shrinks_differences(
    intensity: int, dtype: torch.dtype, tolerance: dict[str, float], generator: torch.Generator
) -> None:
    images = torch.rand(3, 3, 9, 9, generator=generator, dtype=dtype)
    found = contrast(images, intensity)
    torch.testing.assert_close(found.mean((2, 3)), images.mean((2, 3)), **tolerance)
    torch.testing.assert_close(found.diff(dim=2), KEPT[intensity] * images.diff(dim=2), **tolerance)


@LEVELS
def test_salt_replaces_a_part_by_black_and_white(intensity: int) -> None:
    images = torch.full((60, 3, 20, 20), 0.5)
    found = salt(images, intensity, seed=0)
    replaced = found != 0.5
    assert replaced.double().mean().item() == pytest.approx(REPLACED[intensity], rel=0.05)
    assert found[replaced].unique().tolist() == [0, 1]
    assert found[replaced].mean().item() == pytest.approx(0.5, abs=0.03)
    stronger = salt(images, 5, seed=0)
    assert torch.equal(stronger[replaced], found[replaced])


def test_moves_and_salt_are_the_seeds() -> None:
    images = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for apply in (translate, salt):
        assert torch.equal(apply(images, 1, seed=0), apply(images, 1, seed=0))
        assert not torch.equal(apply(images, 1, seed=0), apply(images, 1, seed=1))
