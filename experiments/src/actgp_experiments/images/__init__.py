"""The paper's experiment with images under shift: contestants on MNIST, Fashion-MNIST and CIFAR-10."""

from actgp_experiments.images.cells import SHIFTS_OF, Cell, run_cell
from actgp_experiments.images.contestants import CONTESTANTS
from actgp_experiments.images.grid import NUM_SEEDS, grid_cells, missing, run_grid
from actgp_experiments.images.settings import SETTINGS, ImageSettings

__all__ = [
    "CONTESTANTS",
    "NUM_SEEDS",
    "SETTINGS",
    "SHIFTS_OF",
    "Cell",
    "ImageSettings",
    "grid_cells",
    "missing",
    "run_cell",
    "run_grid",
]
