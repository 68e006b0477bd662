"""All contestants on a set of images: fitted, and judged on test images, on what shifts make of them, and on others.

Contestants that are made of one network are judged together: each set of images goes through its convolutions once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from actgp_experiments.datasets import Images, load_images
from actgp_experiments.images.bench import Bench, Stopwatch
from actgp_experiments.images.contestants import CONTESTANTS, ENSEMBLES, Classifier, Found, mutual_information
from actgp_experiments.images.networks import Networks
from actgp_experiments.images.settings import ImageSettings
from actgp_experiments.metrics import class_scores, predictive_entropy, separation
from actgp_experiments.shifts import SHIFTS, shift
from actgp_experiments.store import Record, revision, versions

CORRUPTIONS = ("gaussian_noise", "motion_blur", "brightness", "pixelate")
SHIFTS_OF = {"mnist": ("rotation",), "fashion_mnist": ("rotation",), "cifar10": CORRUPTIONS}
FOREIGN = {"mnist": "fashion_mnist", "fashion_mnist": "mnist"}  # images of the same shape, of other things
NOISE = "noise"  # images of it, each value uniform
CLEAN = ("", 0)
SHIFT_SEED = 0

Place = tuple[str, int]  # a shift and its level, or other images


@dataclass(frozen=True, order=True)
class Cell:
    """A contestant, a set of images, a seed; an ensemble of all seeds has seed 0."""

    data: str
    seed: int
    model: str


@dataclass(frozen=True)
class Seconds:
    """CPU seconds of one thread.

    Attributes:
        train: Of fitting, the network and its features at hand.
        predict: Of all test images, from pixels to probabilities.
    """

    train: float
    predict: float


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


def judged_images(images: Images, data: str, settings: ImageSettings) -> Iterator[tuple[Place, Tensor]]:
    """Test images, as they are, shifted and foreign ones."""
    some = images.X_test[: settings.shifted_images]
    yield CLEAN, images.X_test
    for name in SHIFTS_OF[data]:
        for level in SHIFTS[name].levels[1:]:
            yield (name, level), shift(some, name, level, SHIFT_SEED)
    if data in FOREIGN:
        yield (FOREIGN[data], 0), some_images(FOREIGN[data], settings).X_test[: settings.shifted_images]
    yield (NOISE, 0), torch.rand(some.shape, generator=torch.Generator().manual_seed(SHIFT_SEED))


def run_cells_of(cells: Sequence[Cell], settings: ImageSettings, folder: Path) -> list[Record]:
    """Fits and judges contestants on one set of images; networks that were trained are taken from the folder."""
    torch.set_num_threads(1)  # sums of one thread have one order
    data, code = cells[0].data, revision()  # of what is run, whatever is changed meanwhile
    images = some_images(data, settings)
    networks = Networks(images, settings, folder)
    # Ensembles are made of others, which are fitted for them if they are not wanted for themselves.
    singles = {
        Cell(data, seed, ENSEMBLES.get(cell.model, cell.model))
        for cell in cells
        for seed in (range(settings.members) if cell.model in ENSEMBLES else (cell.seed,))
    }
    found: dict[Cell, dict[Place, Found]] = {}
    seconds: dict[Cell, Seconds] = {}
    for seed in sorted({cell.seed for cell in singles}):
        bench = Bench(networks, seed)
        fitted: dict[Cell, Classifier] = {}
        for cell in sorted(cell for cell in singles if cell.seed == seed):
            with Stopwatch() as watch:
                _ = bench.train, bench.calibration
            with Stopwatch() as watch:
                fitted[cell] = CONTESTANTS[cell.model](bench)
            seconds[cell] = Seconds(watch.seconds, 0.0)
        for place, X in judged_images(images, data, settings):
            with Stopwatch() as convolutions:
                view = bench.view(X)
            for cell, model in fitted.items():
                with Stopwatch() as own:
                    prediction = model.predict(view)
                found.setdefault(cell, {})[place] = prediction
                if place == CLEAN:
                    takes = own.seconds + (convolutions.seconds if model.from_features else 0.0)
                    seconds[cell] = Seconds(seconds[cell].train, takes)
    for name, of in ENSEMBLES.items():
        members = [Cell(data, seed, of) for seed in range(settings.members)]
        if Cell(data, 0, name) in cells:
            found[Cell(data, 0, name)] = _mixed([found[member] for member in members])
            parts = [seconds[member] for member in members]
            seconds[Cell(data, 0, name)] = Seconds(sum(p.train for p in parts), sum(p.predict for p in parts))
    return [_record(cell, found[cell], seconds[cell], images, settings) | {"revision": code} for cell in cells]


def _mixed(members: Sequence[dict[Place, Found]]) -> dict[Place, Found]:
    """The equal mixture, and how much its members differ, with what each of them does not know of itself left out."""
    mixture = {}
    for place in members[0]:
        passes = torch.stack([member[place].probabilities for member in members])
        mixture[place] = Found(passes.mean(0), mutual_information(passes))
    return mixture


def _record(cell: Cell, found: dict[Place, Found], seconds: Seconds, images: Images, settings: ImageSettings) -> Record:
    clean = found[CLEAN]
    scores = class_scores(clean.probabilities, images.y_test)
    foreign = [name for name in (FOREIGN.get(cell.data), NOISE) if name is not None]
    return {
        "experiment": "images",
        **asdict(cell),
        "images": images.name,  # of CIFAR-10 there may be a part only
        "metrics": scores.metrics | _separations(clean, found[foreign[0], 0], "foreign"),
        "foreign": {name: _separations(clean, found[name, 0], "") for name in foreign},
        "reliability": asdict(scores.reliability),
        "shifts": {name: _levels(name, found, images.y_test, settings) for name in SHIFTS_OF[cell.data]},
        "seconds": {name: round(value, 3) for name, value in asdict(seconds).items()},
        "rows": {"train": len(images.y_train), "test": len(images.y_test)},
        "configuration": asdict(settings),
        "versions": versions(),
    }


def _levels(name: str, found: dict[Place, Found], y: Tensor, settings: ImageSettings) -> list[dict[str, Any]]:
    """Scores at each level; auroc tells how well doubt tells shifted images from the same as they are."""
    some = settings.shifted_images
    clean = Found(*(None if values is None else values[:some] for values in found[CLEAN]))  # type: ignore[arg-type]
    rows = []
    for level in SHIFTS[name].levels:
        there = clean if level == 0 else found[name, level]
        scores = class_scores(there.probabilities, y[:some])
        separations = _separations(clean, there, "")
        rows.append({"level": level, **scores.metrics, **separations, "reliability": asdict(scores.reliability)})
    return rows


def _separations(inside: Found, outside: Found, of: str) -> dict[str, float]:
    """AUROC by the entropy of predictions, and by what is epistemic of it where a contestant knows that."""
    name = f"auroc_{of}" if of else "auroc"
    entropies = predictive_entropy(inside.probabilities), predictive_entropy(outside.probabilities)
    found = {name: separation(*entropies)}
    if inside.epistemic is not None and outside.epistemic is not None:
        found[f"{name}_epistemic"] = separation(inside.epistemic, outside.epistemic)
    return found
