"""The front of a network again, for a file that was saved of what `convert` has made of one of the same class."""

from torch import nn

from actgp.blueprints import Source, is_the_backbone, parts_of, saved_parts
from actgp.convert.split import split


def front_as_saved(source: Source, given: nn.Module | None) -> nn.Module | None:
    """The backbone that `convert` would cut off a network, if it is the saved one; otherwise the module as it is.

    Args:
        source: The description of a model.
        given: The network, or anything else that `load` was given as a backbone; it is not changed.
    """
    parts = saved_parts(source)
    if parts is None or not isinstance(given, nn.Module) or is_the_backbone(source, given):
        return given
    try:
        front = split(given).backbone
    except (TypeError, ValueError):  # no network that can be converted: refused for its structure, when that is checked
        return given
    return front if front is not None and parts_of(front) == parts else given
