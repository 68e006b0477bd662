"""Names beside points, none on top of another."""

from collections.abc import Mapping, Sequence
from math import cos, pi, sin
from typing import Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

RADII = (7.0, 13.0, 20.0, 28.0, 38.0, 50.0, 64.0)  # points from a marker to its name
NUM_ANGLES = 16
FAR = 7.0  # beyond it a line leads from the name to its marker
MARKER = 10.0  # points that a marker takes
FONT_SIZE = 8.0
NEGLIGIBLE = 1e-6  # square pixels


class Place(NamedTuple):
    """Where a name stands, in points from its marker, and which of its ends is there."""

    x: float
    y: float
    end: Literal["left", "center", "right"]

    def box(self, marker: tuple[float, float], extent: Bbox, scale: float) -> Bbox:
        """What the name covers, in pixels: `scale` of them in a point."""
        x, y = marker[0] + self.x * scale, marker[1] + self.y * scale
        left = x - {"left": 0.0, "center": 0.5, "right": 1.0}[self.end] * extent.width
        return Bbox.from_bounds(left, y - extent.height / 2, extent.width, extent.height)


def write_names(
    figure: Figure, axes: Axes, points: Mapping[str, tuple[float, float]], colours: Mapping[str, str]
) -> list[Annotation]:
    """Writes each name near its point, where it covers no marker and no other name.

    Names are placed one after the other, each at the nearest of some places around its point that is free; if none is,
    at that with the least overlap. The limits of the axes must not change any more.
    """
    figure.draw_without_rendering()  # lays out the panel, so that places on it are known
    canvas, scale = axes.get_window_extent(), figure.dpi / 72
    markers = {name: _pixels(axes, point) for name, point in points.items()}
    half = MARKER * scale / 2
    taken = [Bbox.from_extents(x - half, y - half, x + half, y + half) for x, y in markers.values()]
    written = []
    for name in sorted(points, key=markers.__getitem__):
        text = axes.annotate(
            name, points[name], (0, 0), textcoords="offset points", size=FONT_SIZE, color=colours[name], va="center"
        )
        text.set_in_layout(False)
        extent = text.get_window_extent()
        boxes = {place: place.box(markers[name], extent, scale) for place in places()}
        free = (place for place, box in boxes.items() if overlap(box, taken, canvas) < NEGLIGIBLE)
        best = next(free, None) or min(boxes, key=lambda place: overlap(boxes[place], taken, canvas))
        text.set(position=best[:2], horizontalalignment=best.end)
        if best.x**2 + best.y**2 > (FAR + 0.1) ** 2:
            line = _line(colours[name])
            axes.annotate("", points[name], best[:2], textcoords="offset points", arrowprops=line).set_in_layout(False)
        taken.append(boxes[best])
        written.append(text)
    return written


def places() -> list[Place]:
    """To the right first, then around, then farther away."""
    found = []
    for radius in RADII:
        for i in range(NUM_ANGLES):
            angle = 2 * pi * ((i + 1) // 2) * (-1) ** i / NUM_ANGLES
            x, y = radius * cos(angle), radius * sin(angle)
            found.append(Place(x, y, "center" if abs(cos(angle)) < 0.3 else "left" if x > 0 else "right"))
    return found


def overlap(box: Bbox, taken: Sequence[Bbox], canvas: Bbox) -> float:
    """The area that a box shares with others, and how much of it is outside the canvas."""
    outside = box.width * box.height - _shared(box, canvas)
    return sum(_shared(box, other) for other in taken) + outside


def _shared(box: Bbox, other: Bbox) -> float:
    part = Bbox.intersection(box, other)
    return 0.0 if part is None else float(part.width * part.height)


def _pixels(axes: Axes, point: tuple[float, float]) -> tuple[float, float]:
    x, y = axes.transData.transform(point)
    return float(x), float(y)


def _line(colour: str) -> dict[str, object]:
    return {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
