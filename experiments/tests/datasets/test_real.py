"""The sets themselves, where ACTGP_DATA has them."""

import os
from pathlib import Path

import numpy as np
import pytest

from actgp_experiments import datasets
from actgp_experiments.datasets.image_sources import IMAGE_SOURCES
from actgp_experiments.datasets.sources import SOURCES

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


@pytest.mark.parametrize("name", datasets.IMAGE_SETS)
def test_images_are_what_their_source_says(name: str) -> None:
    files = [f"{name}.npz"] if name != "cifar10" else ["cifar10.npz", "cifar10_subset.npz"]
    if not any((FOLDER / file).is_file() for file in files):
        pytest.skip(f"{' and '.join(files)} are not there")
    images = datasets.load_images(name)
    source = IMAGE_SOURCES[images.name]
    assert images.name.startswith(name)
    assert images.X_train.shape == (source.num_train, *source.shape)
    assert images.X_test.shape == (source.num_test, *source.shape)
    for X, y in ((images.X_train, images.y_train), (images.X_test, images.y_test)):
        assert y.bincount().shape == (images.num_classes,)
        assert X.aminmax() == (0, 1)
        assert 0.1 < X.mean() < 0.5  # black surroundings, or photographs
    neighbours = images.X_test.diff(dim=-1).abs().mean() / images.X_test.diff(dim=0).abs().mean()
    assert neighbours < 0.5  # axes are in their order: neighbouring pixels resemble each other more than images do
