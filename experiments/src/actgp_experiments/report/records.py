"""Results of a grid models × data sets × splits, read and made tidy: what has run, and medians and quartiles of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor
from pathlib import Path

from actgp_experiments.report.lines import Line, read_lines

NUM_BINS = 20
SCORES = ("rmse", "nlpd", "crps", "coverage_95")
OPTIONAL_SCORES = ("rmse_original", "nlpd_original")


@dataclass(frozen=True)
class Cell:
    """One model on one split of one data set.

    Attributes:
        data: The data set.
        split: Which part of it is held out.
        model: The model.
        metrics: Scores on the held-out part by name; ∞ where the run failed.
        pit: How many held-out targets y have F(y) in each of 20 equal bins of [0, 1], F the predictive distribution.
        train_seconds: What training took.
        num_rows: Size of the data set, training and held-out part.
        num_inputs: Dimension of its inputs.
        versions: Of the software it was run with.
    """

    data: str
    split: int
    model: str
    metrics: Mapping[str, float]
    pit: tuple[float, ...]
    train_seconds: float
    num_rows: int
    num_inputs: int
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Summary:
    """Quantiles of a score over splits, and over how many."""

    median: float
    lower: float
    upper: float
    count: int


@dataclass(frozen=True)
class Results:
    """All cells of one experiment, at most one for each model, data set and split."""

    experiment: str
    cells: Mapping[tuple[str, str, int], Cell]

    @cached_property
    def models(self) -> list[str]:
        """Names of all models, in alphabetical order."""
        return sorted({cell.model for cell in self.cells.values()})

    @cached_property
    def data_sets(self) -> list[str]:
        """Names of all data sets, the small ones first."""
        return sorted(self._sizes, key=lambda data: (self._sizes[data], data))

    def of(self, data: str, model: str) -> list[Cell]:
        """The cells of one model on one data set, in the order of splits."""
        return [self.cells[data, model, split] for split in self.splits(data) if (data, model, split) in self.cells]

    def splits(self, data: str) -> list[int]:
        """The splits of a data set that any model has run on."""
        return self._splits[data]

    def size(self, data: str) -> tuple[int, int]:
        """Rows and inputs of a data set."""
        return self._sizes[data]

    def complete(self, data: str, model: str) -> bool:
        """Whether a model has run on every split of a data set."""
        return len(self.of(data, model)) == len(self.splits(data))

    def has(self, metric: str) -> bool:
        """Whether every cell has a metric."""
        return all(metric in cell.metrics for cell in self.cells.values())

    def summary(self, data: str, model: str, metric: str) -> Summary | None:
        """Median and quartiles of a metric over the splits that have run, None if none has."""
        values = [cell.metrics[metric] for cell in self.of(data, model)]
        return summarise(values) if values else None

    def train_seconds(self, model: str, data_sets: Sequence[str]) -> Summary:
        """Median and quartiles of what training took, over all splits of some data sets."""
        return summarise([cell.train_seconds for data in data_sets for cell in self.of(data, model)])

    @cached_property
    def _sizes(self) -> dict[str, tuple[int, int]]:
        return {cell.data: (cell.num_rows, cell.num_inputs) for cell in self.cells.values()}

    @cached_property
    def _splits(self) -> dict[str, list[int]]:
        pairs = sorted({(data, split) for data, _, split in self.cells})
        return {data: [split for name, split in pairs if name == data] for data in self._sizes}


def summarise(values: Sequence[float]) -> Summary:
    """Median and quartiles of values."""
    return Summary(quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75), len(values))


def quantile(values: Sequence[float], level: float) -> float:
    """The value at position (n − 1) level of n sorted ones, linear between two; unlike NumPy's, it may be ∞."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * level
    below, part = floor(position), position - floor(position)
    return ordered[below] if part == 0 else (1 - part) * ordered[below] + part * ordered[below + 1]


def read_results(path: Path) -> Results:
    """Reads a file of cells, one JSON object a line; of lines for the same cell the last one counts."""
    lines = read_lines(path)
    experiments = sorted({line.text("experiment") for line in lines})
    if len(experiments) > 1:
        raise ValueError(
            f"{path.name} must hold the results of one experiment, got {experiments}; write each to a file of its own"
        )
    cells = [_cell(line) for line in lines]
    return Results(experiments[0], {(cell.data, cell.model, cell.split): cell for cell in cells})


def _cell(line: Line) -> Cell:
    metrics, rows = line.inner("metrics"), line.inner("rows")
    optional = [name for name in OPTIONAL_SCORES if name in metrics.fields]
    versions = line.inner("versions").fields if "versions" in line.fields else {}
    return Cell(
        data=line.text("data"),
        split=line.integer("split"),
        model=line.text("model"),
        metrics={name: metrics.score(name) for name in (*SCORES, *optional)},
        pit=line.counts("pit", NUM_BINS),
        train_seconds=line.inner("seconds").score("train"),
        num_rows=rows.integer("train") + rows.integer("test"),
        num_inputs=line.integer("inputs"),
        versions={name: str(version) for name, version in versions.items()},
    )
