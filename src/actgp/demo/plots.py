"""One look for every figure: fonts, colours, captions; and each picture's numbers beside it."""

import csv
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

# Okabe and Ito's palette, which the colour-blind can tell apart.
BLACK = "#000000"
BLUE = "#0072B2"
ORANGE = "#E69F00"
VERMILION = "#D55E00"

DIVERGING = "RdBu_r"  # for values around zero

STYLE: dict[Any, Any] = {  # matplotlib types the names of its settings one by one
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E8E8E8",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.0,
}

CAPTION_SIZE = 8.0
CAPTION_CHARACTERS_PER_INCH = 16.5


@contextmanager
def style() -> Iterator[None]:
    """The look of all figures, for what is made and saved inside the block."""
    with mpl.rc_context(STYLE):
        yield


def figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that lays itself out; it belongs to no global state and no window."""
    new = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(new)
    return new


def band(axes: Axes, x: NDArray[np.float64], mean: NDArray[np.float64], sd: NDArray[np.float64], colour: str) -> None:
    """A mean with its band of two standard deviations."""
    axes.fill_between(x, mean - 2 * sd, mean + 2 * sd, color=colour, alpha=0.2, linewidth=0, label="± 2 sd")
    axes.plot(x, mean, color=colour, label="mean")


def caption(figure: Figure, text: str) -> None:
    """Text under all panels, wrapped to the figure's width; the layout keeps room for it."""
    lines = textwrap.wrap(text, width=int(CAPTION_CHARACTERS_PER_INCH * figure.get_figwidth()))
    figure.supxlabel("\n".join(lines), x=0.02, ha="left", fontsize=CAPTION_SIZE, color="#333333", linespacing=1.35)


def save(figure: Figure, path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Writes a figure as PNG to `path`, and the numbers behind it as CSV under the same stem; gives the path."""
    if path.suffix != ".png":
        raise ValueError(f"a figure is written as .png, got {path.name}; end the name in .png")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([f"{value:.10g}" if isinstance(value, float) else value for value in row] for row in rows)
    return path
