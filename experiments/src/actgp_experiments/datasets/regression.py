"""Regression sets by name."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from actgp import checks
from actgp_experiments.datasets.sources import SOURCES, UCI
from actgp_experiments.datasets.storage import find


@dataclass(frozen=True, eq=False)
class Regression:
    """A regression set as it was published: no scaling, no split.

    Attributes:
        name: What it is called here.
        X: Inputs [N, D].
        y: Targets [N].
        feature_names: Names of the inputs' columns.
        target_name: Name of the target.
    """

    name: str
    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    feature_names: tuple[str, ...]
    target_name: str


def load_regression(name: str, *, folder: Path | None = None) -> Regression:
    """Loads a regression set: from ACTGP_DATA, from the cache, or by a download into the cache.

    Args:
        name: One of `UCI`, or "boston", which is there for comparison with published tables only. Of naval the 14
            inputs that vary are given, and the compressor's decay as target; of energy, the heating load.
        folder: A folder with `uci/<name>.npz` to use instead, and nothing else.
    """
    source = SOURCES[checks.choice(name, "name", (*UCI, "boston"))]
    table = find(source, folder)
    kept = [i for i, feature in enumerate(source.features) if feature not in source.constant]
    return Regression(
        name=source.name,
        X=np.ascontiguousarray(table[:, kept]),
        y=table[:, -1].copy(),
        feature_names=tuple(source.features[i] for i in kept),
        target_name=source.target,
    )
