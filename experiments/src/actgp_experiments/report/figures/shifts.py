"""The paper's figure: accuracy and log-likelihood against the strength of a shift."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path

import numpy as np

from actgp_experiments import plots
from actgp_experiments.report.blocks import Picture
from actgp_experiments.report.images import ImageRun, chosen, curve, names
from actgp_experiments.report.looks import looks

COLUMNS = ("data", "shift", "model", "level", "score", "mean", "sd")
SCORES = {"accuracy": ("accuracy, %", 100.0), "log_likelihood": ("log-likelihood", 1.0)}  # with a factor to show it
TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
BESIDE = 3


def draw(runs: Sequence[ImageRun], path: Path) -> Picture:
    """Draws for each shift of each set of images accuracy above and log-likelihood below, three shifts side by side."""
    data_sets, models = names(runs)
    look = looks(models)
    places = [(run.data, shift) for run in {run.data: run for run in runs}.values() for shift in run.shifts]
    columns, bands = min(BESIDE, len(places)), ceil(len(places) / BESIDE)
    width = 0.9 + 2.9 * columns
    rows: list[tuple[object, ...]] = []
    with plots.style():
        figure = plots.figure(width, 0.5 + 4.6 * bands)
        panels = figure.subplots(2 * bands, columns, squeeze=False)
        pairs = [pair for band in range(bands) for pair in panels[2 * band : 2 * band + 2].T]
        for pair in pairs[len(places) :]:
            for axes in pair:
                axes.set_axis_off()
        for pair, (data, shift) in zip(pairs, places, strict=False):
            for axes, (score, (_, factor)) in zip(pair, SCORES.items(), strict=True):
                for model in models:
                    found = curve(chosen(runs, data, model), shift, score)
                    if not found:
                        continue
                    levels = list(found)
                    mean, sd = (factor * np.array(values) for values in zip(*found.values(), strict=True))
                    mean = np.where(np.isfinite(mean), mean, np.nan)  # where a run has failed, a gap
                    colour, marker = look[model].colour, look[model].marker
                    axes.fill_between(levels, mean - sd, mean + sd, color=colour, alpha=0.15, linewidth=0)
                    axes.plot(
                        levels, mean, color=colour, marker=marker, label=model, zorder=3 if look[model].ours else 2
                    )
                    rows += [(data, shift, model, level, score, *found[level]) for level in levels]
            pair[0].set_title(f"{TITLES.get(data, data)}: {shift.replace('_', ' ')}")
            pair[0].sharex(pair[1])
            pair[0].tick_params(labelbottom=False)
            pair[1].set_xlabel("degrees" if shift == "rotation" else "intensity")
        for i, axes in enumerate(panels[:, 0]):
            axes.set_ylabel(list(SCORES.values())[i % 2][0])
        legends = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in panels.flat]
        lines = {name: line for legend in legends for line, name in legend}  # some may be in one panel only
        figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=min(6, len(models)))
        plots.save(figure, path, COLUMNS, rows)
    return Picture(
        path,
        width,
        alt=f"Accuracy and log-likelihood of {len(models)} models under shift, on {', '.join(data_sets)}.",
        caption="Accuracy and mean log-likelihood of test images against the strength of a shift; lines are means over "
        "seeds, bands one standard deviation.",
    )
