"""The paper's experiment with images under shift: contestants on MNIST, Fashion-MNIST and CIFAR-10."""

from actgp_experiments.images.cells import SHIFTS_OF, Cell, run_cells_of
from actgp_experiments.images.choices import run_choices
from actgp_experiments.images.contestants import CONTESTANTS, ENSEMBLES
from actgp_experiments.images.grid import MODELS, NUM_SEEDS, grid_cells, missing, run_grid
from actgp_experiments.images.settings import SETTINGS, ImageSettings

__all__ = [
    "CONTESTANTS",
    "ENSEMBLES",
    "MODELS",
    "NUM_SEEDS",
    "SETTINGS",
    "SHIFTS_OF",
    "Cell",
    "ImageSettings",
    "grid_cells",
    "missing",
    "run_cells_of",
    "run_choices",
    "run_grid",
]
