"""The paper's figures, one module each: `compute()` gives the numbers, `draw(folder)` the picture and its CSV."""

from actgp_experiments.figures.catalogue import FIGURES, write_figures

__all__ = ["FIGURES", "write_figures"]
