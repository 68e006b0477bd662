"""The paper's tables and figures, recomputed."""

from actgp.experiments.figures import FIGURES, write_figures
from actgp.experiments.tables import eigenvalue_tables, render_tables, write_tables

__all__ = ["FIGURES", "eigenvalue_tables", "render_tables", "write_figures", "write_tables"]
