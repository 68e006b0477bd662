"""A report of stored results: tables, ranks and figures, as one HTML page and as Markdown."""

from actgp_experiments.report.write import write_report

__all__ = ["write_report"]
