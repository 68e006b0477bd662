"""The report as a page: facts, scores, and the calibration before and after. It alone needs matplotlib."""

import base64
import io
from html import escape
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from actgp.demo import plots
from actgp.uncertain.assess import Assessment
from actgp.uncertain.report import UncertaintyReport

CURVES = (4.6, 3.6)  # inches
PAGE = (7.4, 6.4)
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
td.number, th.number { text-align: right; padding: .3rem .4rem .3rem 1.6rem; font-variant-numeric: tabular-nums }
img { max-width: 100%; height: auto }
"""


def write(report: UncertaintyReport, path: Path) -> None:
    """Writes the page."""
    with plots.style():
        if path.suffix.lower() == ".png":
            _whole(report).savefig(path, bbox_inches="tight", pad_inches=0.25)
            return
        path.write_text(_html(report), encoding="utf-8")


def _whole(report: UncertaintyReport) -> Figure:
    """Everything in one picture."""
    figure = plots.figure(*PAGE)
    grid = figure.add_gridspec(2, 1, height_ratios=(1.0, 1.25))
    text = figure.add_subplot(grid[0])
    text.set_axis_off()
    text.set_xlim(0, 1)
    text.text(0, 1.0, report.title, fontsize=13, weight="bold", va="top")
    height = 0.86
    for name, said in report.facts:
        text.text(0, height, name, color="#666666", va="top")
        text.text(0.19, height, said, va="top")
        height -= 0.085
    height -= 0.04
    for x, name in ((0.44, "network"), (0.6, "model")):
        text.text(x, height, name, color="#666666", va="top", ha="right")
    for name, *values in report.scores:
        height -= 0.085
        text.text(0, height, name, va="top")
        for x, value in zip((0.44, 0.6), values, strict=True):
            text.text(x, height, value.replace("-", "−"), va="top", ha="right")
    _calibration(figure.add_subplot(grid[1]), report)
    return figure


def _calibration(axes: Axes, report: UncertaintyReport) -> None:
    """What is promised against what is found, before and after."""
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle=":", label="ideal")
    drawn: list[tuple[Assessment, str, str, str, float]] = [
        (report.network, "network", plots.ORANGE, "s", 7.0),  # to be seen where the model's are the same
        (report.model, "model", plots.BLUE, "o", 4.0),
    ]
    for found, name, colour, marker, size in drawn:
        promised, seen = zip(*found.calibration, strict=True)
        axes.plot(promised, seen, color=colour, marker=marker, markersize=size, label=name)
    labels = report.model.labels
    axes.set_xlabel("probability of the class that is predicted" if labels else "level of the interval")
    axes.set_ylabel("how often it is right" if labels else "part of the targets inside")
    axes.set_title("Calibration")
    axes.set_aspect("equal")
    axes.set_xlim(0, 1.02)
    axes.set_ylim(0, 1.02)
    axes.legend(loc="lower right")


def _html(report: UncertaintyReport) -> str:
    figure = plots.figure(*CURVES)
    _calibration(figure.add_subplot(), report)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    data = base64.b64encode(picture.getvalue()).decode()
    facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(said)}</td></tr>" for name, said in report.facts)
    scores = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(f'<td class="number">{escape(value).replace("-", "−")}</td>' for value in values)
        + "</tr>"
        for name, *values in report.scores
    )
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(report.title)}</title>\n<style>{STYLE}</style>\n<h1>{escape(report.title)}</h1>\n"
        f"<table>{facts}</table>\n"
        f'<table><tr><th></th><th class="number">network</th><th class="number">model</th></tr>{scores}</table>\n'
        f'<img alt="calibration before and after" src="data:image/png;base64,{data}">\n</html>\n'
    )
