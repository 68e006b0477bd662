"""Data sets by name, from a folder, a cache or a download, and checked by their values wherever they come from.

`UCI` names the eight regression sets of the usual table. Boston housing is not among them: its variable B encodes the
racial composition of neighbourhoods, on the premise that people pay more for segregation, and that premise was racist;
scikit-learn removed the set for it. `load_regression("boston")` loads it for one purpose, comparison with the published
tables that contain it.

`IMAGE_SETS` names the sets of images.

A set is looked for in the folder that the environment variable ACTGP_DATA names (`uci/<name>.npz`, `banana_full.npz`,
`mnist.npz`, `fashion_mnist.npz`, `cifar10.npz` or `cifar10_subset.npz`), then in the cache (ACTGP_CACHE, otherwise
`actgp` in XDG_CACHE_HOME or `~/.cache`), and is then downloaded into it.
"""

from actgp_experiments.datasets.banana import Banana, load_banana
from actgp_experiments.datasets.download import DatasetUnavailable
from actgp_experiments.datasets.image_sources import IMAGE_SETS
from actgp_experiments.datasets.images import Images, load_images
from actgp_experiments.datasets.regression import Regression, load_regression
from actgp_experiments.datasets.sources import UCI
from actgp_experiments.datasets.splitting import Split, splits
from actgp_experiments.datasets.standardised import MOST_SPLITS, NUM_SPLITS, TEST_FRACTION, Standardised, standardised

__all__ = [
    "IMAGE_SETS",
    "MOST_SPLITS",
    "NUM_SPLITS",
    "TEST_FRACTION",
    "UCI",
    "Banana",
    "DatasetUnavailable",
    "Images",
    "Regression",
    "Split",
    "Standardised",
    "load_banana",
    "load_images",
    "load_regression",
    "splits",
    "standardised",
]
