"""A trained network made uncertain in one line, and a page that says what came of it."""

from actgp.uncertain.assess import Assessment
from actgp.uncertain.convert_and_fit import uncertain
from actgp.uncertain.report import UncertaintyReport

__all__ = ["Assessment", "UncertaintyReport", "uncertain"]
