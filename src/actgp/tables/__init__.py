"""The default for tables: several models, mixed by what they are worth on rows that they have not seen."""

from actgp.tables.table import PLANS, Effort, TableFit, fit_table

__all__ = ["PLANS", "Effort", "TableFit", "fit_table"]
