"""The demo: the main job on generated and bundled data, as scores, pictures and a page. It needs the extra `cli`."""

from actgp.demo import classification, regression, table
from actgp.demo.page import write_page
from actgp.demo.pictures import probabilities, two_readings

__all__ = ["classification", "probabilities", "regression", "table", "two_readings", "write_page"]
