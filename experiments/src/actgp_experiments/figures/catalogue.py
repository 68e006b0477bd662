"""Which figures there are, and writing them."""

from collections.abc import Callable, Sequence
from pathlib import Path

from actgp import checks
from actgp_experiments.figures import (
    exact_gp,
    harmonics,
    matern_vs_arccosine,
    projection,
    relu_coefficients,
    spectra,
    truncated_activations,
    truncation,
)

FIGURES: dict[str, Callable[[Path], Path]] = {
    "projection": projection.draw,
    "truncated_activations": truncated_activations.draw,
    "truncation": truncation.draw,
    "matern_vs_arccosine": matern_vs_arccosine.draw,
    "harmonics": harmonics.draw,
    "relu_coefficients": relu_coefficients.draw,
    "spectra": spectra.draw,
    "exact_gp": exact_gp.draw,
}


def write_figures(
    folder: Path, names: Sequence[str] | None = None, *, progress: Callable[[str], None] | None = None
) -> list[Path]:
    """Writes figures as PNG, each with its numbers as CSV beside it.

    Args:
        folder: Where they go; made if need be.
        names: Which of `FIGURES`; all by default.
        progress: Called with the name of each figure before it is drawn.

    Returns:
        The paths of the pictures, in the order of `names`.
    """
    chosen = [checks.choice(name, "figure", FIGURES) for name in (FIGURES if names is None else names)]
    paths = []
    for name in chosen:
        if progress is not None:
            progress(name)
        paths.append(FIGURES[name](folder))
    return paths
