"""Changes of a model that are made as a whole, or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def undone_if_broken_off(model: nn.Module) -> Iterator[None]:
    """Gives a model its parameters back where an error or an interrupt ends the block."""
    before = {name: values.detach().clone() for name, values in model.state_dict().items()}
    try:
        yield
    except BaseException:
        model.load_state_dict(before)
        raise
