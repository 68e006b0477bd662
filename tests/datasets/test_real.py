"""The sets themselves, where ACTGP_DATA has them."""

import os
from pathlib import Path

import numpy as np
import pytest

from actgp import datasets
from actgp.datasets.sources import SOURCES

FOLDER = Path(os.environ.get("ACTGP_DATA") or "nowhere")
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="ACTGP_DATA names no folder of data")
SHAPES = {
    **{"concrete": (1030, 8), "energy": (768, 8), "kin8nm": (8192, 8), "naval": (11934, 14), "power": (9568, 4)},
    **{"protein": (45730, 9), "wine_red": (1599, 11), "yacht": (308, 6), "boston": (506, 13)},
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_set_is_what_its_source_says(name: str) -> None:
    file = FOLDER / SOURCES[name].file
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    data = datasets.load_regression(name)
    assert data.X.shape == SHAPES[name]
    assert data.y.shape == SHAPES[name][:1]
    assert len(data.feature_names) == SHAPES[name][1]
    assert (data.X.std(0) > 0).all()
    with np.load(file, allow_pickle=False) as archive:
        names = archive["feature_names"][archive["nonconstant_cols"]]
        assert data.feature_names == tuple(names.tolist())
        assert data.target_name == str(archive["target_name"])


def test_banana_has_the_usual_400() -> None:
    file = FOLDER / "banana_full.npz"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    banana = datasets.load_banana()
    assert banana.X_train.shape == (400, 2)
    assert banana.X_test.shape == (4900, 2)
    with np.load(file, allow_pickle=False) as archive:
        usual = np.sort(archive["idx_gpflow400"])
        np.testing.assert_array_equal(banana.X_train, archive["X"][usual])
        np.testing.assert_array_equal(banana.y_train, archive["y"][usual])
