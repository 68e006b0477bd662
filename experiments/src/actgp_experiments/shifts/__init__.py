"""Images that are no longer like those a model was trained on: rotated, noisy, blurred, brighter, coarser, and others.

Images are [N, C, H, W] with values in [0, 1]; so is what comes back, in a tensor of its own, of the same dtype and on
the same device. Noise, blur, brightness and pixelation have intensities 0 to 5, after the common corruptions of
Hendrycks and Dietterich (2019), with the strengths of their version for images of 32 × 32 pixels; intensity 0, like
rotation by 0°, changes nothing. Images that are smaller, moved, of less contrast or sprinkled with salt have
intensities 0 to 5, too: methods are chosen by these, and tested by the others. What is drawn for an image depends on
the seed and the image's place in the batch, not on intensity, batch size or the other images: shift a test set as a
whole, or its first part for a first look, and cut it into batches afterwards.
"""

from actgp_experiments.shifts.blur import motion_blur
from actgp_experiments.shifts.geometry import shrink, translate
from actgp_experiments.shifts.light import brightness, contrast
from actgp_experiments.shifts.noise import gaussian_noise, salt
from actgp_experiments.shifts.pixels import pixelate
from actgp_experiments.shifts.rotation import rotate
from actgp_experiments.shifts.table import SHIFTS, Shift, shift

__all__ = [
    "SHIFTS",
    "Shift",
    "brightness",
    "contrast",
    "gaussian_noise",
    "motion_blur",
    "pixelate",
    "rotate",
    "salt",
    "shift",
    "shrink",
    "translate",
]
