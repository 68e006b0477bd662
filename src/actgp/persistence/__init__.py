"""Files of models and estimators: the format, and what a thing is made of, in words and tensors."""

from actgp.persistence import archive
from actgp.persistence.classes import Sizes, refuse, refuse_to_save, savable, savable_as
from actgp.persistence.state import SavedBackbone, parts_of
from actgp.persistence.walker import Description, describe, rebuild, save, words

__all__ = [
    "Description",
    "SavedBackbone",
    "Sizes",
    "archive",
    "describe",
    "parts_of",
    "rebuild",
    "refuse",
    "refuse_to_save",
    "savable",
    "savable_as",
    "save",
    "words",
]
