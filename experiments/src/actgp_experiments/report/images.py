"""Contestants on images: what they score on test images, and on what shifts make of these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from statistics import fmean, pstdev
from typing import NamedTuple

from actgp_experiments.report.lines import Line, read_lines

EXPERIMENT = "images"
NUM_BINS = 15
SCORES = ("accuracy", "log_likelihood", "ece", "brier")
FOREIGN = "auroc_foreign"


class Bins(NamedTuple):
    """Predictions by their confidence: how many, and the sums of their confidence and of those that are right."""

    counts: tuple[float, ...]
    confidence: tuple[float, ...]
    right: tuple[float, ...]


@dataclass(frozen=True)
class Level:
    """Scores at one level of a shift: those of `SCORES` and auroc, and the bins of a reliability diagram."""

    level: int
    scores: Mapping[str, float]
    bins: Bins


@dataclass(frozen=True)
class ImageRun:
    """One contestant with one seed.

    Attributes:
        data: The set of images.
        model: The contestant.
        seed: Its seed.
        scores: On test images: those of `SCORES`, and `FOREIGN` where there are foreign images.
        shifts: Each shift's levels, the first of which is none at all.
    """

    data: str
    model: str
    seed: int
    scores: Mapping[str, float]
    shifts: Mapping[str, Sequence[Level]]


class Moments(NamedTuple):
    """Mean and standard deviation over seeds."""

    mean: float
    sd: float


def read_images(path: Path) -> list[ImageRun]:
    """Reads a file of runs, one JSON object a line; of lines for the same run the last one counts."""
    runs = {}
    for line in read_lines(path):
        run = _run(line)
        runs[run.data, run.model, run.seed] = line.where, run
    shifts: dict[str, set[str]] = {}
    for where, run in runs.values():
        wanted = shifts.setdefault(run.data, set(run.shifts))
        if set(run.shifts) != wanted:
            raise ValueError(
                f"{where}: the shifts of {run.data} must be the same in all lines, {sorted(wanted)}, got "
                f"{sorted(run.shifts)}; mend or remove the line"
            )
    return [run for _, run in runs.values()]


def moments(values: Sequence[float]) -> Moments:
    """Mean and standard deviation; ∞ and 0 if a run has failed."""
    return Moments(fmean(values), pstdev(values)) if all(map(isfinite, values)) else Moments(inf, 0.0)


def curve(runs: Sequence[ImageRun], shift: str, score: str) -> dict[int, Moments]:
    """A score at each level of a shift, over the seeds of a contestant on one set of images."""
    levels: dict[int, list[float]] = {}
    for run in runs:
        for level in run.shifts[shift]:
            levels.setdefault(level.level, []).append(level.scores[score])
    return {level: moments(values) for level, values in sorted(levels.items())}


def chosen(runs: Sequence[ImageRun], data: str, model: str) -> list[ImageRun]:
    """The runs of a contestant on one set of images."""
    return [run for run in runs if (run.data, run.model) == (data, model)]


def names(runs: Sequence[ImageRun]) -> tuple[list[str], list[str]]:
    """Sets of images and contestants, in the order in which they come."""
    return list(dict.fromkeys(run.data for run in runs)), list(dict.fromkeys(run.model for run in runs))


def _run(line: Line) -> ImageRun:
    if line.text("experiment") != EXPERIMENT:
        raise ValueError(
            f"{line.where}: the experiment must be {EXPERIMENT!r}, got {line.text('experiment')!r}; "
            "pass the file that `actgp run images` wrote"
        )
    metrics, shifts = line.inner("metrics"), line.inner("shifts")
    known = (*SCORES, FOREIGN) if FOREIGN in metrics.fields else SCORES
    return ImageRun(
        line.text("data"),
        line.text("model"),
        line.integer("seed"),
        {name: metrics.score(name) for name in known},
        {name: _levels(shifts, name) for name in shifts.fields},
    )


def _levels(shifts: Line, name: str) -> list[Level]:
    levels = [_level(row) for row in shifts.objects(name)]
    if not any(level.level > 0 for level in levels):
        raise ValueError(
            f"{shifts.where}: {name!r} must have a level above 0, got {[level.level for level in levels]}; "
            "mend or remove the line"
        )
    return levels


def _level(line: Line) -> Level:
    inner = line.inner("reliability")
    counts, confidence, accuracy = (inner.counts(name, NUM_BINS) for name in ("counts", "confidence", "accuracy"))
    sums = (tuple(n * value for n, value in zip(counts, values, strict=True)) for values in (confidence, accuracy))
    scores = {name: line.score(name) for name in (*SCORES, "auroc")}
    return Level(line.integer("level"), scores, Bins(counts, *sums))
