"""What every shift asks of its arguments."""

from torch import Tensor

from actgp import checks

INTENSITIES = (0, 1, 2, 3, 4, 5)


def pictures(images: Tensor) -> Tensor:
    """Returns `images` if they are [N, C, H, W] with values in [0, 1]."""
    checks.tensor(images, "images")
    if images.ndim != 4 or 0 in images.shape:
        raise ValueError(
            f"images must have shape [N, C, H, W] with at least one pixel, got {list(images.shape)}; "
            "for grey ones [N, H, W] use images[:, None], for a single one images[None]"
        )
    checks.finite(images, "images")
    lowest, highest = (value.item() for value in images.aminmax())
    if lowest < 0 or highest > 1:
        raise ValueError(
            f"images must have values in [0, 1], got {lowest:.4g} to {highest:.4g}; divide bytes by 255, and shift "
            "images before they are standardised"
        )
    return images


def strength(intensity: int, strengths: tuple[float, ...]) -> float:
    """The strength that belongs to an intensity of 0 to 5."""
    return strengths[checks.choice(checks.integer(intensity, "intensity", minimum=0), "intensity", INTENSITIES)]
