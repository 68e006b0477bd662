"""The paper's UCI experiment: contestants on regression data sets, by one configuration for all."""

from actgp_experiments.uci.cells import MOST_SPLITS, NUM_SPLITS, Cell, run_cell
from actgp_experiments.uci.contestants import ABLATED, ABLATIONS, CONTESTANTS
from actgp_experiments.uci.grid import QUICK, grid_cells, missing, run_grid, stale

__all__ = [
    "ABLATED",
    "ABLATIONS",
    "CONTESTANTS",
    "MOST_SPLITS",
    "NUM_SPLITS",
    "QUICK",
    "Cell",
    "grid_cells",
    "missing",
    "run_cell",
    "run_grid",
    "stale",
]
