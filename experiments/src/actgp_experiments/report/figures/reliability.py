"""Reliability diagrams: how often predictions are right, against how sure they are."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from actgp_experiments import plots
from actgp_experiments.report.blocks import Picture
from actgp_experiments.report.images import Bins, ImageRun, chosen, names
from actgp_experiments.report.looks import looks

COLUMNS = ("data", "model", "images", "confidence", "accuracy", "count")
FEWEST = 20  # predictions in a bin that is drawn

Values = NDArray[np.float64]


def pooled(parts: Sequence[Bins]) -> tuple[Values, Values, Values]:
    """Confidence, accuracy and count of each bin with enough predictions, over all parts."""
    counts, confidence, right = (np.sum([part[i] for part in parts], axis=0) for i in range(3))
    enough = counts >= FEWEST
    return confidence[enough] / counts[enough], right[enough] / counts[enough], counts[enough]


def draw(runs: Sequence[ImageRun], path: Path) -> Picture:
    """Draws a row for each set of images and a panel for each model: test images, and those of all shifts together."""
    data_sets, models = names(runs)
    look = looks(models)
    width = 0.6 + 1.85 * len(models)
    rows: list[tuple[object, ...]] = []
    with plots.style():
        figure = plots.figure(width, 0.7 + 2.1 * len(data_sets))
        panels = figure.subplots(len(data_sets), len(models), sharex=True, sharey=True, squeeze=False)
        for band, data in zip(panels, data_sets, strict=True):
            for axes, model in zip(band, models, strict=True):
                axes.plot([0, 1], [0, 1], color=plots.BLACK, linewidth=0.8, linestyle=":")
                shifts = [list(run.shifts.values()) for run in chosen(runs, data, model)]
                first = [level for of_run in shifts for levels in of_run[:1] for level in levels]
                every = [level for of_run in shifts for levels in of_run for level in levels]
                for name, parts, dashes in (
                    ("test", [level.bins for level in first if level.level == 0], "--"),  # the same in all shifts
                    ("shifted", [level.bins for level in every if level.level > 0], "-"),
                ):
                    if parts:
                        confidence, accuracy, count = pooled(parts)
                        axes.plot(confidence, accuracy, color=look[model].colour, linestyle=dashes, marker=".")
                        bins = zip(confidence.tolist(), accuracy.tolist(), count.tolist(), strict=True)
                        rows += [(data, model, name, *values) for values in bins]
                axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], title=model)
                axes.set_aspect("equal")
            band[0].set_ylabel(f"{data}\naccuracy".replace("_", " "))
        figure.supxlabel("confidence", fontsize=9)
        plots.save(figure, path, COLUMNS, rows)
    return Picture(
        path,
        width,
        alt=f"Confidence against accuracy of {len(models)} models on {', '.join(data_sets)}.",
        caption="Confidence against accuracy: test images dashed, images of all shifts and levels together solid, all "
        f"seeds together, bins with at least {FEWEST} predictions. Below the dotted diagonal a model is too sure.",
    )
