"""Tables as people have them: `actgp fit`, `predict` and the page on each, beside gradient-boosted quantiles."""

from actgp_experiments.ten_tables.cases import CASES, Case
from actgp_experiments.ten_tables.markdown import markdown
from actgp_experiments.ten_tables.run import QUICK_ROWS, run_case

__all__ = ["CASES", "QUICK_ROWS", "Case", "markdown", "run_case"]
