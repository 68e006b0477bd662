"""Cost against quality: training time against average rank, one labelled point for each model."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path

from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from actgp_experiments import plots
from actgp_experiments.report.blocks import Picture
from actgp_experiments.report.figures.labels import write_names
from actgp_experiments.report.looks import looks
from actgp_experiments.report.metrics import NLPD
from actgp_experiments.report.ranks import average_ranks, largest_grid
from actgp_experiments.report.records import Results

WIDTH, HEIGHT = 7.4, 4.4  # inches
LEAST_SECONDS = 1e-3  # the axis is logarithmic
COLUMNS = ("model", "train_seconds", "average_nlpd_rank")


def draw(results: Results, models: Sequence[str], path: Path) -> Picture:
    """Draws the models of the largest full grid: median training time there, and average rank by NLPD."""
    grid, look = largest_grid(results), looks(models)
    rank = average_ranks(results, NLPD.key, grid)
    seconds = {model: results.train_seconds(model, grid.data_sets).median for model in grid.models}
    points = {
        model: (max(seconds[model], LEAST_SECONDS), rank[model]) for model in grid.models if isfinite(seconds[model])
    }
    with plots.style():
        figure = plots.figure(WIDTH, HEIGHT)
        axes = figure.subplots()
        for model, point in points.items():
            axes.plot(*point, look[model].marker, color=look[model].colour, markersize=7)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.margins(x=0.15, y=0.12)
        axes.set(xlabel="median training time in seconds", ylabel="average NLPD rank (lower is better)")
        write_names(
            figure, axes, points, {model: look[model].colour if look[model].ours else plots.BLACK for model in points}
        )
        rows = [(model, *point) for model, point in points.items()]
        plots.save(figure, path, COLUMNS, rows)
    return Picture(
        path,
        WIDTH,
        alt=f"Training time against average NLPD rank for {len(points)} models.",
        caption=f"Median training time against average NLPD rank, over the {len(grid.data_sets)} data sets of the "
        "table of average ranks; the lower left is best.",
    )
