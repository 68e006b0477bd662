"""Calibration: how often central intervals hold the target, against how often they should.

The interval of level p holds y where F(y) is within p/2 of 1/2. With 20 bins of F(y), the levels 0.1, 0.2, …, 1 end at
edges of bins:

    coverage(k/10) = (c_{11−k} + … + c_{10+k}) / (c_1 + … + c_20).
"""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from textwrap import fill

import numpy as np
from numpy.typing import NDArray

from actgp_experiments import plots
from actgp_experiments.report.blocks import Picture
from actgp_experiments.report.looks import looks
from actgp_experiments.report.records import NUM_BINS, Results

LEVELS = np.linspace(0, 1, NUM_BINS // 2 + 1)
MOST_PANELS = 5  # beside each other
COLUMNS = ("model", "data", "level", "coverage")

Values = NDArray[np.float64]


def coverage(counts: Values) -> Values:
    """The part of targets that each central interval holds, at `LEVELS`, from counts in bins of F(y)."""
    middle = NUM_BINS // 2
    pairs = counts[:middle][::-1] + counts[middle:]  # [10], from the middle outwards
    return np.concatenate([[0.0], np.cumsum(pairs)]) / counts.sum()


def coverages(results: Results, model: str) -> dict[str, Values]:
    """A model's coverage on each data set, of the targets of all splits together."""
    counts = {data: np.sum([cell.pit for cell in results.of(data, model)], axis=0) for data in results.data_sets}
    return {data: coverage(total) for data, total in counts.items() if np.sum(total) > 0}


def draw(results: Results, models: Sequence[str], path: Path) -> Picture:
    """Draws a panel for each model: a thin line for each data set, and a thick one for their mean."""
    look = looks(models)
    bands = ceil(len(models) / MOST_PANELS)
    across = ceil(len(models) / bands)
    width = 0.6 + 1.85 * across
    rows: list[tuple[object, ...]] = []
    with plots.style():
        figure = plots.figure(width, 0.5 + 2.15 * bands)
        panels = figure.subplots(bands, across, sharex=True, sharey=True, squeeze=False).flat
        for axes in panels[len(models) :]:
            axes.set_visible(False)
        for axes, model in zip(panels[: len(models)], models, strict=True):
            lines = coverages(results, model)
            axes.plot([0, 1], [0, 1], color=plots.BLACK, linewidth=0.8, linestyle=":")
            for line in lines.values():
                axes.plot(LEVELS, line, color=look[model].colour, linewidth=0.7, alpha=0.45)
            if lines:
                mean = np.mean(list(lines.values()), axis=0)
                axes.plot(LEVELS, mean, color=look[model].colour, linewidth=2.2)
                error = np.mean([np.abs(line - LEVELS)[1:-1].mean() for line in lines.values()])
                axes.text(0.97, 0.04, f"error {100 * error:.1f} %", ha="right", fontsize=7.5, transform=axes.transAxes)
            axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
            axes.set_title(fill(model, 26), color=look[model].colour if look[model].ours else plots.BLACK)
            axes.set_aspect("equal")
            rows += [
                (model, data, level, value)
                for data, line in lines.items()
                for level, value in zip(LEVELS.tolist(), line.tolist(), strict=True)
            ]
        figure.supxlabel("level of the interval", fontsize=9)
        figure.supylabel("part of targets inside", fontsize=9)
        plots.save(figure, path, COLUMNS, rows)
    return Picture(
        path,
        width,
        alt=f"Expected against observed coverage of central intervals for {len(models)} models.",
        caption="Expected against observed coverage of central predictive intervals. Thin lines are data sets, all "
        "splits together; the thick line is their mean. Below the dotted diagonal intervals are too narrow, above it "
        "too wide; the error is the mean distance from it.",
    )
