"""All shifts by name, each with its levels."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp_experiments.shifts.arguments import INTENSITIES
from actgp_experiments.shifts.blur import motion_blur
from actgp_experiments.shifts.geometry import shrink, translate
from actgp_experiments.shifts.light import brightness, contrast
from actgp_experiments.shifts.noise import gaussian_noise, salt
from actgp_experiments.shifts.pixels import pixelate
from actgp_experiments.shifts.rotation import rotate


class Shift(NamedTuple):
    """One shift.

    Attributes:
        levels: From none at all to the strongest: degrees or intensities.
        apply: From images, a level and a seed to images.
    """

    levels: tuple[int, ...]
    apply: Callable[[Tensor, int, int], Tensor]


SHIFTS: Mapping[str, Shift] = MappingProxyType(
    {
        "rotation": Shift(tuple(range(0, 181, 15)), lambda images, level, seed: rotate(images, level)),
        "gaussian_noise": Shift(INTENSITIES, gaussian_noise),
        "motion_blur": Shift(INTENSITIES, motion_blur),
        "brightness": Shift(INTENSITIES, lambda images, level, seed: brightness(images, level)),
        "pixelate": Shift(INTENSITIES, lambda images, level, seed: pixelate(images, level)),
        "shrink": Shift(INTENSITIES, lambda images, level, seed: shrink(images, level)),
        "translate": Shift(INTENSITIES, translate),
        "contrast": Shift(INTENSITIES, lambda images, level, seed: contrast(images, level)),
        "salt": Shift(INTENSITIES, salt),
    }
)


def shift(images: Float[Tensor, "N C H W"], name: str, level: int, seed: int) -> Float[Tensor, "N C H W"]:
    """Applies one of `SHIFTS`.

    Args:
        images: [N, C, H, W] with values in [0, 1].
        name: Which shift.
        level: One of its levels.
        seed: Of noise and of directions; the other shifts draw nothing.
    """
    chosen = SHIFTS[checks.choice(name, "name", SHIFTS)]
    return chosen.apply(images, checks.choice(level, "level", chosen.levels), checks.integer(seed, "seed", minimum=0))
