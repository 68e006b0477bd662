"""What is said of things that cannot be saved, and of descriptions from which nothing can be built."""

from collections.abc import Iterable
from typing import NoReturn


class DescriptionError(ValueError):
    """A description from which nothing can be built."""


def refuse(place: str, expected: str, got: str) -> NoReturn:
    """Raises the error that says what a description lacks."""
    raise DescriptionError(
        f"the description of {place or 'the model'} must have {expected}, got {got}; write it with the model's save"
    )


def refuse_to_save(place: str, options: Iterable[str], got: object) -> NoReturn:
    """Raises the error for what a file cannot hold."""
    raise TypeError(
        f"to be saved, {place or 'the model'} must be one of {sorted(options)}, got {type(got).__name__}, whose code "
        "no file holds; keep model.state_dict(), and load it into the model built anew by your own code"
    )
