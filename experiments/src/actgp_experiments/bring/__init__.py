"""Bring your own network: what to put around one that is trained, contestants on regression data sets."""

from actgp_experiments.bring.cells import Cell, run_cell
from actgp_experiments.bring.contestants import CONTESTANTS, OURS
from actgp_experiments.bring.grid import NUM_SEEDS, grid_cells, latest, missing, run_grid
from actgp_experiments.bring.settings import QUICK, BringSettings
from actgp_experiments.bring.table import markdown

__all__ = [
    "CONTESTANTS",
    "NUM_SEEDS",
    "OURS",
    "QUICK",
    "BringSettings",
    "Cell",
    "grid_cells",
    "latest",
    "markdown",
    "missing",
    "run_cell",
    "run_grid",
]
