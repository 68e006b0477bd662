"""One colour and one marker for each model, the same in every figure: our own in the accent colour."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from actgp_experiments import plots

OURS = "ADGP"  # how the names of our own models begin
OUR_COLOURS = (plots.VERMILION, "#8F3E00", "#F08A4B")  # the accent, darker, lighter
OTHER_COLOURS = ("#4D4D4D", plots.BLUE, plots.GREEN, plots.GREY, "#56B4E9", "#CC79A7")
MARKERS = "osD^vPX<>"


class Look(NamedTuple):
    """How a model is drawn."""

    colour: str
    marker: str
    ours: bool


def is_ours(model: str) -> bool:
    """Whether a model is one of our own, by its name."""
    return model.startswith(OURS)


def looks(models: Sequence[str]) -> dict[str, Look]:
    """A look for each model, by the alphabet and not by their order; 27 of our own and 54 others before they recur."""
    given = {}
    for ours, colours in ((True, OUR_COLOURS), (False, OTHER_COLOURS)):
        pairs = list(product(MARKERS, colours))
        names = sorted(model for model in models if is_ours(model) == ours)
        for i, name in enumerate(names):
            marker, colour = pairs[i % len(pairs)]
            given[name] = Look(colour, marker, ours)
    return given
