"""One cell of the grid: a contestant on a set of images, judged on the test images and on what shifts make of them."""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from actgp_experiments.datasets import Images, load_images
from actgp_experiments.images.contestants import CONTESTANTS, Classifier
from actgp_experiments.images.networks import Networks
from actgp_experiments.images.settings import ImageSettings
from actgp_experiments.metrics import class_scores, predictive_entropy, separation
from actgp_experiments.shifts import SHIFTS, shift
from actgp_experiments.store import Record, versions

CORRUPTIONS = ("gaussian_noise", "motion_blur", "brightness", "pixelate")
SHIFTS_OF = {"mnist": ("rotation",), "fashion_mnist": ("rotation",), "cifar10": CORRUPTIONS}
FOREIGN = {"mnist": "fashion_mnist", "fashion_mnist": "mnist"}  # images of the same shape, of other things
SHIFT_SEED = 0


@dataclass(frozen=True)
class Cell:
    """A contestant, a set of images, a seed."""

    data: str
    seed: int
    model: str


def some_images(name: str, settings: ImageSettings) -> Images:
    """A set of images, no more of them than wanted."""
    whole, train, test = load_images(name), settings.train_images, settings.test_images
    return replace(
        whole,
        X_train=whole.X_train[:train],
        y_train=whole.y_train[:train],
        X_test=whole.X_test[:test],
        y_test=whole.y_test[:test],
    )


def run_cell(cell: Cell, settings: ImageSettings, folder: Path) -> Record:
    """Trains and judges; networks that other cells have trained are taken from the folder."""
    torch.set_num_threads(1)  # cells run side by side, and sums of one thread have one order
    images = some_images(cell.data, settings)
    model = CONTESTANTS[cell.model](Networks(images, settings, folder), cell.seed)
    start = time.process_time()  # of the one thread: what runs beside it does not count
    model.fit()
    trained = time.process_time()
    clean = model.probabilities(images.X_test)
    predicted = time.process_time()
    found = class_scores(clean, images.y_test)
    doubt = predictive_entropy(clean)
    metrics = dict(found.metrics)
    if cell.data in FOREIGN:
        foreign = some_images(FOREIGN[cell.data], settings).X_test
        metrics["auroc_foreign"] = separation(doubt, predictive_entropy(model.probabilities(foreign)))
    return {
        "experiment": "images",
        **asdict(cell),
        "images": images.name,  # of CIFAR-10 there may be a part only
        "metrics": metrics,
        "reliability": asdict(found.reliability),
        "shifts": {name: _under_shift(model, images, name, clean) for name in SHIFTS_OF[cell.data]},
        "seconds": {"train": round(trained - start, 3), "predict": round(predicted - trained, 3)},
        "rows": {"train": len(images.y_train), "test": len(images.y_test)},
        "configuration": asdict(settings),
        "versions": versions(),
    }


def _under_shift(model: Classifier, images: Images, name: str, clean: Tensor) -> list[dict[str, Any]]:
    """Scores at each level; auroc tells how well doubt tells shifted images from others."""
    found = []
    for level in SHIFTS[name].levels:
        p = clean if level == 0 else model.probabilities(shift(images.X_test, name, level, SHIFT_SEED))
        scores = class_scores(p, images.y_test)
        auroc = separation(predictive_entropy(clean), predictive_entropy(p))
        found.append({"level": level, **scores.metrics, "auroc": auroc, "reliability": asdict(scores.reliability)})
    return found
