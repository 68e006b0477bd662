"""One look for every figure: the demo's, and what only the experiments draw."""

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from numpy.typing import NDArray

from actgp.demo.plots import BLACK, BLUE, DIVERGING, ORANGE, VERMILION, band, caption, figure, save, style

__all__ = [
    "BLACK",
    "BLUE",
    "DIVERGING",
    "GREEN",
    "GREY",
    "LIGHT",
    "ORANGE",
    "VERMILION",
    "band",
    "caption",
    "figure",
    "mark_missing",
    "number",
    "save",
    "shades",
    "style",
]

GREEN = "#009E73"
GREY = "#8C8C8C"
LIGHT = "#D9D9D9"


def shades(count: int) -> list[str]:
    """Colours from light to dark, for curves with an order, such as truncations or dimensions."""
    ramp = mpl.colormaps["viridis_r"]
    return [to_hex(ramp(0.15 + 0.8 * i / max(count - 1, 1))) for i in range(count)]


def mark_missing(axes: Axes, levels: NDArray[np.int_]) -> None:
    """Crosses at the foot of a logarithmic axis, for levels that are exactly zero."""
    feet = np.full(len(levels), 0.03)
    axes.plot(levels, feet, "x", color=GREY, markersize=5, transform=axes.get_xaxis_transform(), label="exactly zero")


def number(value: float) -> str:
    """A value for a title: one decimal, and a true minus sign."""
    return f"{value:.1f}".replace("-", "−")
