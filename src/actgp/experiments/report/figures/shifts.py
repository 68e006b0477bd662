"""The paper's figure: accuracy and log-likelihood against the strength of a shift."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from actgp import plots
from actgp.experiments.report.blocks import Picture
from actgp.experiments.report.images import ImageRun, chosen, curve, names
from actgp.experiments.report.looks import looks

COLUMNS = ("data", "shift", "model", "level", "score", "mean", "sd")
SCORES = {"accuracy": "accuracy", "log_likelihood": "log-likelihood"}


def draw(runs: Sequence[ImageRun], path: Path) -> Picture:
    """Draws a column for each shift of each set of images: accuracy above, log-likelihood below."""
    data_sets, models = names(runs)
    look = looks(models)
    places = [(run.data, shift) for run in {run.data: run for run in runs}.values() for shift in run.shifts]
    width = 0.9 + 2.3 * len(places)
    rows: list[tuple[object, ...]] = []
    with plots.style():
        figure = plots.figure(width, 4.8)
        panels = figure.subplots(2, len(places), squeeze=False, sharex="col")
        for column, (data, shift) in zip(panels.T, places, strict=True):
            for axes, score in zip(column, SCORES, strict=True):
                for model in models:
                    found = curve(chosen(runs, data, model), shift, score)
                    if not found:
                        continue
                    levels = list(found)
                    mean, sd = (np.array(values) for values in zip(*found.values(), strict=True))
                    mean = np.where(np.isfinite(mean), mean, np.nan)  # where a run has failed, a gap
                    colour, marker = look[model].colour, look[model].marker
                    axes.fill_between(levels, mean - sd, mean + sd, color=colour, alpha=0.15, linewidth=0)
                    axes.plot(
                        levels, mean, color=colour, marker=marker, label=model, zorder=3 if look[model].ours else 2
                    )
                    rows += [(data, shift, model, level, score, *found[level]) for level in levels]
            column[0].set_title(f"{data}: {shift}".replace("_", " "))
            column[1].set_xlabel("degrees" if shift == "rotation" else "intensity")
        for axes, label in zip(panels[:, 0], SCORES.values(), strict=True):
            axes.set_ylabel(label)
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=min(6, len(models)))
        plots.save(figure, path, COLUMNS, rows)
    return Picture(
        path,
        width,
        alt=f"Accuracy and log-likelihood of {len(models)} models under shift, on {', '.join(data_sets)}.",
        caption="Accuracy and mean log-likelihood of test images against the strength of a shift; lines are means over "
        "seeds, bands one standard deviation.",
    )
