"""The figures of a report, one module each: `draw(results, models, path)` gives the picture, with its CSV beside it."""

from collections.abc import Sequence
from pathlib import Path

from actgp_experiments.report.blocks import Picture
from actgp_experiments.report.figures import calibration, cost, reliability, scores, shifts
from actgp_experiments.report.ranks import largest_grid
from actgp_experiments.report.records import Results

__all__ = ["draw_all", "reliability", "shifts"]


def draw_all(results: Results, models: Sequence[str], folder: Path, prefix: str = "") -> dict[str, Picture]:
    """Draws the figures into a folder.

    Args:
        results: What has run.
        models: All models, in the order in which they are shown.
        folder: Where the figures go; made if need be.
        prefix: What the names of their files begin with.

    Returns:
        The pictures by name; `cost` is left out as long as no model has all splits of any data set.
    """
    pictures = {
        "scores": scores.draw(results, models, folder / f"{prefix}scores.png"),
        "calibration": calibration.draw(results, models, folder / f"{prefix}calibration.png"),
    }
    if largest_grid(results).models:
        pictures["cost"] = cost.draw(results, models, folder / f"{prefix}cost.png")
    return pictures
