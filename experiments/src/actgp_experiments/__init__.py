"""The paper's experiments, tables and figures, with baselines beside them, and the report on what was found."""
