"""The demo: the main job on generated and bundled data, as scores, pictures and a page."""

from actgp.experiments.demo import classification, regression
from actgp.experiments.demo.page import write_page
from actgp.experiments.demo.pictures import probabilities, two_readings

__all__ = ["classification", "probabilities", "regression", "two_readings", "write_page"]
