"""RMSE and NLPD on each data set (the paper's figure of UCI results): medians over splits, and quartiles."""

from collections.abc import Mapping, Sequence
from math import ceil, isfinite
from pathlib import Path
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from actgp_experiments import plots
from actgp_experiments.report.blocks import Picture
from actgp_experiments.report.looks import Look, looks
from actgp_experiments.report.metrics import NLPD, RMSE, Metric
from actgp_experiments.report.records import Results, Summary, quantile
from actgp_experiments.report.tables import sized

METRICS = (RMSE, NLPD)
MOST_PANELS = 6  # beside each other
NAME_WIDTH = 28  # characters
OFF_SCALE = 4.0  # spreads beyond the model in the middle
COLUMNS = ("data", "metric", "model", "median", "lower_quartile", "upper_quartile", "splits")


def draw(results: Results, models: Sequence[str], path: Path) -> Picture:
    """Draws one row of panels for each metric, one panel for each data set; many data sets take several such bands."""
    data_sets, look = results.data_sets, looks(models)
    bands = ceil(len(data_sets) / MOST_PANELS)
    across = ceil(len(data_sets) / bands)
    width, height = 2.2 + 1.55 * across, bands * len(METRICS) * (0.75 + _line_height(models) * len(models))
    rows: list[tuple[object, ...]] = []
    with plots.style():
        figure = plots.figure(width, height)
        panels = figure.subplots(bands * len(METRICS), across, sharey=True, squeeze=False)
        for axes in panels.flat:
            axes.set_visible(False)
        for i, data in enumerate(data_sets):
            for j, metric in enumerate(METRICS):
                axes = panels[len(METRICS) * (i // across) + j, i % across]
                axes.set_visible(True)
                found = {model: results.summary(data, model, metric.key) for model in models}
                summaries = {model: summary for model, summary in found.items() if summary is not None}
                hollow = {model for model in models if not results.complete(data, model)}
                _panel(axes, models, summaries, look, hollow, metric)
                axes.set(title=sized(results, data) if j == 0 else "", xlabel=metric.name)
                rows += [
                    (data, metric.key, model, s.median, s.lower, s.upper, s.count) for model, s in summaries.items()
                ]
        plots.save(figure, path, COLUMNS, rows)
    return Picture(
        path,
        width,
        alt=f"RMSE and NLPD of {len(models)} models on {len(data_sets)} data sets; the medians are in the tables.",
        caption="Dots are medians over splits, bars reach from the 25 % to the 75 % quantile, left is better; our own "
        "models are in orange. Above each panel: data set, rows and inputs. An arrow marks a median far off the scale.",
    )


def _panel(
    axes: Axes,
    models: Sequence[str],
    summaries: Mapping[str, Summary],
    look: Mapping[str, Look],
    hollow: set[str],
    metric: Metric,
) -> None:
    limit = _limit(list(summaries.values()))
    shown = {model: summary for model, summary in summaries.items() if summary.median <= limit}
    for model, summary in shown.items():
        y, colour = models.index(model), look[model].colour
        axes.plot([summary.lower, min(summary.upper, limit)], [y, y], color=colour, linewidth=2.2, alpha=0.5)
        face = "white" if model in hollow else colour
        axes.plot(summary.median, y, look[model].marker, color=colour, markerfacecolor=face, markersize=4.5)
    low = min((summary.lower for summary in shown.values()), default=0.0)
    high = max((min(summary.upper, limit) for summary in shown.values()), default=1.0)
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 0.05
    off = [model for model in summaries if model not in shown]
    axes.set_xlim(low - margin, high + (5 if off else 1) * margin)
    for model in off:
        y, colour = models.index(model), look[model].colour
        value = f"{metric.text(summaries[model].median)} ▸"
        right = axes.get_yaxis_transform()
        axes.text(0.995, y, value, color=colour, fontsize=6.5, ha="right", va="center", transform=right)
    axes.set_ylim(len(models) - 0.4, -0.6)
    axes.set_yticks(range(len(models)), [fill(model, NAME_WIDTH) for model in models])
    for label, model in zip(axes.get_yticklabels(), models, strict=False):  # only the first panel of a row has any
        if look[model].ours:
            label.set(color=look[model].colour, fontweight="bold")
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(3))


def _line_height(models: Sequence[str]) -> float:
    """Inches for a model, with room for the longest name."""
    lines = max(len(fill(model, NAME_WIDTH).splitlines()) for model in models)
    return 0.08 + 0.13 * lines


def _limit(summaries: Sequence[Summary]) -> float:
    """Beyond it a model would squeeze the others: some spreads above the median of medians."""
    finite = [summary for summary in summaries if isfinite(summary.median)]
    if not finite:
        return 0.0
    middle = quantile([summary.median for summary in finite], 0.5)
    best = min(summary.median for summary in finite)
    widths = [summary.upper - summary.lower for summary in finite if isfinite(summary.upper)]
    return middle + OFF_SCALE * max(middle - best, quantile(widths, 0.5) if widths else 0.0)
